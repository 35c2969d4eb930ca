package settings

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/retention"
)

// Keep holds flags that limit items which take up space. 0 means no limit.
type Keep struct {
	// For is the longest time since an item's last use.
	For time.Duration
	// Size is the most space that all items may take up together.
	Size Size
	// Count is the most items, besides those in use.
	Count int
}

// AddFlags adds --keep-NAME, --keep-NAME-for and --keep-NAME-size. The values in k are the defaults. what is the noun
// for the items in --help.
func (k *Keep) AddFlags(flags *pflag.FlagSet, name, what string) {
	flags.IntVar(&k.Count, "keep-"+name, k.Count, "delete the oldest "+what+" beyond this `number` (0: not limited)")
	flags.DurationVar(&k.For, "keep-"+name+"-for", k.For, "delete "+what+" older than this (0: not limited)")
	flags.Var(&k.Size, "keep-"+name+"-size", "delete the oldest "+what+" beyond this total `size` (0: not limited)")
}

// Check returns an error if a value is negative.
func (k *Keep) Check(name string) error {
	if k.For < 0 || k.Count < 0 {
		return fmt.Errorf("--keep-%s %d, --keep-%s-for %v: want 0 or more", name, k.Count, name, k.For)
	}
	return nil
}

// Limits returns the limits for package retention.
func (k *Keep) Limits() retention.Limits {
	return retention.Limits{Age: k.For, Bytes: uint64(k.Size), Count: k.Count}
}
