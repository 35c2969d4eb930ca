// Package boards makes the Grafana dashboards of Spate's InfluxDB measurements, which package aggregate/sink defines.
//
// It only builds JSON: it asks no server, and works out no number. A percentile in a panel is always one that Spate has
// merged, as it was written: of one window, of a stage to date, or of a stage. Counts are added up. Nothing is ever
// averaged. The program generate, beside it, writes what it makes into the dashboards folder;
// deployments/grafana/provisioning hands them to Grafana.
package boards

import "encoding/json"

// File is a dashboard as a file.
type File struct {
	// Name of the file, without a folder.
	Name string
	// Board is what is in it.
	Board Board
}

// JSON is the file's content.
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
