// Package ledger keeps a run on disk: every snapshot once, before anybody is told that it arrived, and every decision
// about the run.
//
// A Ledger is one file with one writer. Each record has a checksum, and opening verifies all of them: a damaged ledger
// says which run, stage, agent and window lost what, and Salvage copies what is intact. Nothing here knows what a
// snapshot's numbers mean.
package ledger
