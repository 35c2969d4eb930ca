// Package aggregate merges what agents measured into results.
//
// A Stage merges the snapshots of one stage while it runs and says what is missing; ResultOf makes the result of a
// whole run from its ledger alone (package ledger). All sums are exact integers and all percentiles come from merged
// histograms, so a result depends on which snapshots there are and never on the order in which they came.
//
// The coordinator checks each snapshot, appends it to the ledger and adds it here as it arrives; package report makes
// files from the ledger afterwards. Nothing here knows the network, draws conclusions from a result, or reads a clock.
package aggregate
