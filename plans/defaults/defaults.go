// Package defaults fills in what a plan leaves out. docs/plan.md and the pages it names list the defaults. Its
// functions return copies.
package defaults

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
)

// Defaults of a plan.
const (
	DrainTimeout = 60 * time.Second
	OnAgentLoss  = "fail"
)

// Duration returns d, or other if d is not given.
func Duration(d *durationpb.Duration, other time.Duration) *durationpb.Duration {
	if d == nil {
		return durationpb.New(other)
	}
	return d
}
