package plans

import (
	"embed"
	"fmt"
	"io"
	"strings"
)

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
