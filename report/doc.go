// Package report makes the files and tables that people read from the ledger of a run.
//
// Everything is made from the ledger alone, so it can be made again at any time, byte for byte the same. Nothing
// depends on a clock, the environment or the order of arrival. Package aggregate calculates the numbers; this package
// only formats them. The command calls Write when a run has ended or a person asks for a report, and Table to show the
// result in a terminal.
package report
