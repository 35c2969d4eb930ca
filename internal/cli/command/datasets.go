package command

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spate-load/spate/internal/files"
)

// DatasetDir returns the default directory of datasets. It is in the user's cache, where the programs of one machine
// share the datasets and the next run finds them.
func DatasetDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir() // there is no home directory, as in a container or for a system service
	}
	return filepath.Join(dir, "spate", "datasets")
}

// Limits for a user's own datasets. Datasets are rows that can be made again from their files.
const (
	keepDatasets     = 32 << 30
	keepDatasetsFor  = 90 * 24 * time.Hour
	largestOfDataset = 64 << 30
)

// DatasetLimits returns the limits for a user's own datasets, and the most bytes of text that a file of rows may have.
// They come from the environment: SPATE_DATASET_CACHE_SIZE, SPATE_DATASET_CACHE_AGE and SPATE_DATASET_MAX_SIZE. 0 means
// no limit.
func DatasetLimits() (keep files.Limits, largest uint64, err error) {
	room, most, age := Size(keepDatasets), Size(largestOfDataset), keepDatasetsFor
	if text := os.Getenv("SPATE_DATASET_CACHE_SIZE"); text != "" {
		if err := room.Set(text); err != nil {
			return keep, 0, fmt.Errorf("SPATE_DATASET_CACHE_SIZE: %w", err)
		}
	}
	if text := os.Getenv("SPATE_DATASET_CACHE_AGE"); text != "" {
		if age, err = time.ParseDuration(text); err != nil || age < 0 {
			return keep, 0, fmt.Errorf("SPATE_DATASET_CACHE_AGE: %q: want a time such as 720h", text)
		}
	}
	if text := os.Getenv("SPATE_DATASET_MAX_SIZE"); text != "" {
		if err := most.Set(text); err != nil {
			return keep, 0, fmt.Errorf("SPATE_DATASET_MAX_SIZE: %w", err)
		}
	}
	if most == 0 {
		most = 1 << 62
	}
	return files.Limits{Age: age, Bytes: uint64(room)}, uint64(most), nil
}
