// Package aggregate merges what agents measured into results.
//
// A Stage merges the snapshots of one stage while the stage runs, and names what is missing. ResultOf makes the result
// of a whole run from its ledger alone (package ledger). All sums are exact integers and all percentiles come from
// merged histograms, so a result depends only on the set of snapshots, never on the order in which they arrived.
//
// The coordinator checks each snapshot, appends it to the ledger and adds it here as it arrives. Package report makes
// files from the ledger afterwards. This package does not use the network, draw conclusions from a result, or read a
// clock.
package aggregate
