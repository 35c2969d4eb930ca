// Package ledger keeps a run on disk: every snapshot once, written before its arrival is acknowledged, and every
// decision about the run.
//
// A Ledger is one file with one writer. Each record has a checksum, and opening a ledger verifies all of them. The
// error for a damaged ledger names the run, stage, agent and window of what is lost, and Salvage copies what is intact.
// This package does not interpret the numbers of snapshots.
package ledger
