// Package databases tests what runs write to databases: InfluxDB and Prometheus' remote write, live and by export,
// through outages, against the numbers in the run directory. It holds tests only.
package databases
