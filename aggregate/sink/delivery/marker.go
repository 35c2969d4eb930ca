package delivery

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// markSuffix is the suffix of a file in a run directory that exists while a database may lack points of the run. The
// file's name without it is the kind of the database.
const markSuffix = ".incomplete"

// markText is what a person reads in the file.
const markText = "The database may lack points of this run. The end of the run removes this file, or spate export.\n"

func markPath(runDir, kind string) string { return filepath.Join(runDir, kind+markSuffix) }

// mark notes that a database may lack points of a run. It reports whether this was already noted: then an earlier
// process ended before it had sent everything.
func mark(runDir, kind string) (already bool, err error) {
	file, err := os.OpenFile(markPath(runDir, kind), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	_, err = file.WriteString(markText)
	return false, errors.Join(err, file.Close())
}

// Complete notes that the databases of a kind have all points of a run.
func Complete(runDir, kind string) error {
	if err := os.Remove(markPath(runDir, kind)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Incomplete reports whether a database may lack points of a run, so that the run directory is still needed. It also
// returns true if the directory exists but cannot be read.
func Incomplete(runDir string) bool {
	entries, err := os.ReadDir(runDir)
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), markSuffix) {
			return true
		}
	}
	return err != nil && !errors.Is(err, fs.ErrNotExist)
}
