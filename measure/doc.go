// Package measure is the catalogue of everything that agents measure: one table of metrics and one of counters.
//
// A metric is a distribution of values, a counter a number of events. Recorder, snapshots, merge, results, databases
// and docs follow the two tables. A new one takes three edits: its field in metrics.proto, its row here, and the place
// that records it. Tests compare the tables with the protocol, with results.json and with docs/results.md.
//
// The package holds no measurements and knows nothing of agents or runs. Everybody may import it.
package measure
