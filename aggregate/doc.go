// Package aggregate keeps what agents measured and merges it into results.
//
// The Ledger holds every snapshot of a run once, on disk, before anybody is told that it arrived. A Stage merges the snapshots of
// one stage while it runs and says what is missing; ResultOf makes the result of a whole run from its ledger alone. All sums are
// exact integers and all percentiles come from merged histograms, so a result depends on which snapshots there are and never on
// the order in which they came.
//
// The coordinator checks, appends and adds each snapshot as it arrives; package report makes files from the ledger afterwards.
// Nothing here knows the network, draws conclusions from a result, or reads a clock.
package aggregate
