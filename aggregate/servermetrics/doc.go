// Package servermetrics merges the serving engines' own metrics of a stage, which agents read and send with their
// snapshots: samples by window, and accounts of the growth over the stage. It summarizes them, and compares the
// servers' account with what clients measured.
//
// The package does not know agents, snapshots of load, or ledgers. A Metrics is not safe for concurrent use.
package servermetrics

const nanosPerSecond = 1e9
