// Command boards writes Grafana dashboards into folders of the folder given as its argument: dashboards, of Spate's
// InfluxDB measurements, which package aggregate/sink defines, and dashboards-prometheus, one of the same measurements
// in Prometheus. `make generate` runs it, and deployments/grafana/provisioning hands those of InfluxDB to Grafana.
//
// It only builds JSON: it calls no server and computes no numbers. A percentile of InfluxDB in a panel is always one
// that Spate has merged and written: of one window, of a stage to date, or of a stage. Prometheus adds histograms up
// and computes quantiles of the sum. Counts are added up. Nothing is ever averaged.
package main

import "encoding/json"

// File is a dashboard as a file.
type File struct {
	// Name of the file, without a folder.
	Name string
	// Board is the dashboard in the file.
	Board Board
}

// JSON returns the content of the file.
func (f File) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(f.Board, "", "  ")
	return append(data, '\n'), err
}

// All returns the dashboards of InfluxDB.
func All() []File {
	return []File{
		{"live.json", live()},
		{"sweep.json", sweep()},
		{"compare.json", compare()},
		{"regions.json", regions()},
		{"agents.json", agents()},
	}
}
