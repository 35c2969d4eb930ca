package command

import (
	"fmt"
	"time"

	"github.com/spate-load/spate/internal/files"
)

// Keep holds flags that limit items which take up space. 0 means no limit. In its tags, KEPT are the items in names of
// flags, WHAT in help texts, and AGE and SPACE are the defaults.
type Keep struct {
	Count int           `flag:"keep-KEPT" help:"delete the oldest WHAT beyond this <number> (0: not limited)"`
	For   time.Duration `flag:"keep-KEPT-for" default:"AGE" help:"delete WHAT older than this (0: not limited)"`
	Size  Size          `flag:"keep-KEPT-size" default:"SPACE" help:"delete the oldest WHAT beyond this total <size> (0: not limited)"`
}

// Check returns an error if a value is negative.
func (k *Keep) Check(name string) error {
	if k.For < 0 || k.Count < 0 {
		return fmt.Errorf("--keep-%s %d, --keep-%s-for %v: want 0 or more", name, k.Count, name, k.For)
	}
	return nil
}

// Limits returns the limits for package retention.
func (k *Keep) Limits() files.Limits {
	return files.Limits{Age: k.For, Bytes: uint64(k.Size), Count: k.Count}
}
