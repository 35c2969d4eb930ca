// Package measure is the catalogue of everything that agents measure: one table of metrics and one of counters.
//
// A metric is a distribution of values, a counter a number of events. Recorder, snapshots, merge, results, databases
// and docs follow the two tables. A new metric or counter takes three edits: its field in metrics.proto, its row here,
// and the place that records it. Tests compare the tables with the protocol, results.json and docs/results.md.
// One writes the tables of docs/influxdb.md.
//
// The package holds no measurements and knows nothing about agents or runs. Any package may import it.
package measure

// Definitions is the version of what the numbers mean. Raise it when you change what a metric or counter counts, or how
// its value is taken. Agents and coordinators with different definitions do not measure together, because their numbers
// cannot be added. docs/versions.md has the history.
const Definitions = 2
