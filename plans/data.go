package plans

import (
	"embed"
	"fmt"
	"io"
	"strings"
)

//go:embed data
var shippedData embed.FS

// OpenData opens a file that ships with the program for the workloads of shipped plans, by its name: "lines.txt". The caller closes it.
func OpenData(name string) (io.ReadCloser, error) {
	f, err := shippedData.Open("data/" + name)
	if err != nil {
		return nil, fmt.Errorf("no file named %q ships with Spate, only: %s", name, strings.Join(dataFiles(), ", "))
	}
	return f, nil
}

func dataFiles() []string {
	entries, err := shippedData.ReadDir("data")
	if err != nil {
		panic("plans: the embedded files cannot be listed: " + err.Error()) // They are part of the binary.
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
