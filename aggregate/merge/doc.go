// Package merge merges what agents measured.
//
// A Stage merges the snapshots of one stage while the stage runs. The coordinator checks each snapshot (Check), appends
// it to the ledger and adds it here as it arrives. All sums are exact integers and all percentiles come from merged
// histograms, so the sums depend only on the set of snapshots, never on the order in which they arrived.
//
// A Stage has three readers: Views show windows and the stage to date, the methods in decisions.go are what the rules
// of a plan depend on, and Read gives package results the sums. The package does not use the network or read a clock.
package merge
