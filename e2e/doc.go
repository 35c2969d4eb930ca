// Package e2e tests Spate as people run it: the programs as separate processes, on loopback. It holds tests only. What
// one package does alone is tested in that package. The tests here are for promises that need all packages: a plan is
// the same set of requests on any agents, the numbers in the run directory are those of the requests, and what breaks
// outside Spate does not break results.
package e2e
