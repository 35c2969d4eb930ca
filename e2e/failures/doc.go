// Package failures tests runs in which something breaks: servers, agents, coordinators, ledgers, and people who stop
// runs. It holds tests only.
package failures
