// Package boards makes Grafana dashboards of Spate's InfluxDB measurements, which package aggregate/sink defines.
//
// The package only builds JSON: it calls no server and computes no numbers. A percentile in a panel is always one that
// Spate has merged and written: of one window, of a stage to date, or of a stage. Counts are added up. Nothing is ever
// averaged. The command generate, beside it, writes the dashboards into the dashboards folder;
// deployments/grafana/provisioning hands them to Grafana.
package boards

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

// All returns all dashboards.
func All() []File {
	return []File{
		{"live.json", live()},
		{"sweep.json", sweep()},
		{"compare.json", compare()},
		{"regions.json", regions()},
		{"agents.json", agents()},
	}
}
