package plans

import (
	"embed"
	"fmt"
	"io"
	"strings"
)

//go:embed *.yaml
var shipped embed.FS

// Shipped returns the names of the plans that ship with the program, sorted.
func Shipped() []string {
	names := embeddedFiles(shipped, ".")
	for i, name := range names {
		names[i] = strings.TrimSuffix(name, ".yaml")
	}
	return names
}

// embeddedFiles lists a folder of embedded files, sorted.
func embeddedFiles(files embed.FS, folder string) []string {
	entries, err := files.ReadDir(folder)
	if err != nil {
		panic("plans: the embedded files cannot be listed: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// Open returns the YAML of a shipped plan, by its name with or without ".yaml".
func Open(name string) ([]byte, error) {
	data, err := shipped.ReadFile(strings.TrimSuffix(name, ".yaml") + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no plan named %q ships with Spate, only %s: %w", name, strings.Join(Shipped(), ", "), err)
	}
	return data, nil
}

//go:embed data
var shippedData embed.FS

// OpenData opens a file that ships with the program for the workloads of shipped plans, by its name, such as
// "lines.txt". The caller closes the file.
func OpenData(name string) (io.ReadCloser, error) {
	f, err := shippedData.Open("data/" + name)
	if err != nil {
		return nil, fmt.Errorf("no file named %q ships with Spate, only: %s", name,
			strings.Join(embeddedFiles(shippedData, "data"), ", "))
	}
	return f, nil
}
