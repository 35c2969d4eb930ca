// Package fits holds the simulator's engines against what was measured on real deployments, in virtual time: without a
// clock, without HTTP, as fast as it computes. It also holds them against their capacity in closed form and against
// searches for the highest load. It has only tests. docs/simulator.md shows the results.
package fits
