package sink

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// SpoolSuffix ends the name of a file in a run's directory in which a sink keeps what its database has not taken yet.
const SpoolSuffix = ".spool"

// Waits reports whether something in a run's directory waits for a database: then the run is still needed. It does so,
// too, if the directory cannot be read.
func Waits(runDir string) bool {
	entries, err := os.ReadDir(runDir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), SpoolSuffix) {
			return true
		}
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}
