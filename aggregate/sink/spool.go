package sink

import (
	"errors"
	"io/fs"
	"os"
	"strings"
)

// SpoolSuffix is the suffix of files in a run directory in which a sink keeps the points that its database has not
// taken yet.
const SpoolSuffix = ".spool"

// Waits reports whether points in a run directory still wait for a database, so that the directory is still needed. It
// also returns true if the directory exists but cannot be read.
func Waits(runDir string) bool {
	entries, err := os.ReadDir(runDir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), SpoolSuffix) {
			return true
		}
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}
