// Package databases tests what runs write to InfluxDB and to OpenTelemetry's collector, live and by export, through
// outages, and what Prometheus reads of them, against the numbers in the run directory. It holds tests only.
package databases
