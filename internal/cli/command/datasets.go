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

// DatasetLimits are the limits for a user's own datasets.
var DatasetLimits = files.Limits{Age: 90 * 24 * time.Hour, Bytes: 32 << 30}

// MaxDataset returns the most bytes of text that a file of rows may have: SPATE_DATASET_MAX_SIZE in the environment, or
// 64 GiB.
func MaxDataset() (uint64, error) {
	most := Size(64 << 30)
	if text := os.Getenv("SPATE_DATASET_MAX_SIZE"); text != "" {
		if err := most.Set(text); err != nil {
			return 0, fmt.Errorf("SPATE_DATASET_MAX_SIZE: %w", err)
		}
	}
	return uint64(most), nil
}
