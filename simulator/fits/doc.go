// Package fits compares the simulator's engines with what was measured on real deployments, in virtual time: without a
// clock, without HTTP, as fast as it computes. It also compares them with their capacity in closed form and with
// searches for the highest load. Only tests use it. docs/simulator.md shows the results.
package fits
