package settings

import (
	"os"
	"path/filepath"
)

// DatasetDir is where datasets are kept unless something else is said: in the user's cache, where the programs of one machine share them
// and the next run finds them.
func DatasetDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir() // no home directory, as in a container or for a system service
	}
	return filepath.Join(dir, "spate", "datasets")
}
