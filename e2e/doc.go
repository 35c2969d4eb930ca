// Package e2e tests Spate as people run it: the programs as processes of their own, on loopback. It holds tests only.
// What one package does alone is tested there; here are the promises that need all of them: one plan is one set of
// requests on any agents, the numbers in the run directory are those of the requests, and what breaks outside of Spate
// breaks no result.
package e2e
