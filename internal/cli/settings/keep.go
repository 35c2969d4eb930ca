package settings

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/internal/retention"
)

// Keep says what may stay of things that take room. What is 0 is not limited.
type Keep struct {
	// For is how long ago they may have been used last.
	For time.Duration
	// Size is the room that all of them may take.
	Size Size
	// Count is how many there may be.
	Count int
}

// AddFlags adds --keep-NAME, --keep-NAME-for and --keep-NAME-size. The defaults are what k holds. what names the things
// in --help.
func (k *Keep) AddFlags(flags *pflag.FlagSet, name, what string) {
	flags.IntVar(&k.Count, "keep-"+name, k.Count, "delete the oldest "+what+" beyond this `number` (0: not limited)")
	flags.DurationVar(&k.For, "keep-"+name+"-for", k.For, "delete "+what+" older than this (0: not limited)")
	flags.Var(&k.Size, "keep-"+name+"-size", "delete the oldest "+what+" beyond this `size` of all (0: not limited)")
}

// Check refuses what cannot be.
func (k *Keep) Check(name string) error {
	if k.For < 0 || k.Count < 0 {
		return fmt.Errorf("--keep-%s %d, --keep-%s-for %v: want 0 or more", name, k.Count, name, k.For)
	}
	return nil
}

// Limits are the same for who removes what is beyond them.
func (k *Keep) Limits() retention.Limits {
	return retention.Limits{Age: k.For, Bytes: uint64(k.Size), Count: k.Count}
}
