// Package host sets up the process that an agent runs in, the priority of its threads and the pace of its garbage
// collector, and keeps the load up to which its machine is exact. Commands that run agents call it; the package knows
// no plans and no runs.
package host
