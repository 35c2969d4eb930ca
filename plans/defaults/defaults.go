// Package defaults fills in what a plan leaves out. docs/plan.md and the pages it names list the defaults. Its functions return copies.
package defaults

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
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

// Observers returns a copy of o with its defaults, or nil if o is nil.
func Observers(o *spatev1.Observers) *spatev1.Observers {
	o = proto.CloneOf(o)
	if o != nil && o.GetRate() == 0 {
		o.Concurrency = cmp.Or(o.GetConcurrency(), 1)
	}
	return o
}
