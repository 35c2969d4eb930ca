package command

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"

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

// DatasetLimits returns the limits for a user's own datasets, and the most bytes of text that a file of rows may have.
// They come from the environment: SPATE_DATASET_CACHE_SIZE, SPATE_DATASET_CACHE_AGE and SPATE_DATASET_MAX_SIZE. 0 means
// no limit.
func DatasetLimits() (keep files.Limits, largest uint64, err error) {
	var of struct {
		Room Size          `flag:"SPATE_DATASET_CACHE_SIZE" default:"32GiB"`
		Age  time.Duration `flag:"SPATE_DATASET_CACHE_AGE" default:"2160h"`
		Most Size          `flag:"SPATE_DATASET_MAX_SIZE" default:"64GiB"`
	}
	variables := pflag.NewFlagSet("", pflag.ContinueOnError)
	Declare(variables, &of)
	for _, name := range Names(&of) {
		if text := os.Getenv(name); text != "" {
			if err := variables.Lookup(name).Value.Set(text); err != nil {
				return keep, 0, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	if of.Age < 0 {
		return keep, 0, fmt.Errorf("SPATE_DATASET_CACHE_AGE: %v: want a time such as 720h", of.Age)
	}
	if of.Most == 0 {
		of.Most = 1 << 62
	}
	return files.Limits{Age: of.Age, Bytes: uint64(of.Room)}, uint64(of.Most), nil
}
