package plans

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// factor is how many times faster time passes in a simulation. Its methods multiply rates and the speed of engines, and
// divide durations, of a message in place; 1 changes nothing. Connect timeouts are kept, because connecting is not
// simulated.
type factor float64

// target changes the speed of a target's simulator and the target's timeouts.
func (k factor) target(t *spatev1.Target) {
	if s := t.GetSimulator(); s != nil {
		s.Speed = k.faster(s.GetSpeed())
	}
	for _, d := range []proto.Message{t.GetRequestTimeout(), t.GetFirstTokenTimeout(), t.GetGapTimeout()} {
		k.shorten(d)
	}
}

// workload changes the think times and delays of a workload whose sessions are played, or of the parts of a mixture,
// and the limits of the parts.
func (k factor) workload(w *spatev1.Workload) {
	k.shorten(w)
	for _, part := range content.Parts(w) {
		if play, _ := content.Play(part); play != nil && play.DelayScale != nil {
			play.DelayScale = new(play.GetDelayScale() / float64(k))
		}
	}
}

// load changes the rates and durations of a load point. A concurrency is not a rate.
func (k factor) load(l *spatev1.LoadPoint) {
	k.shorten(l)
	l.Rate = k.faster(l.GetRate())
	l.ReplaySpeed = k.faster(l.GetReplaySpeed())
	if l.GetConcurrency() == 0 {
		for _, p := range l.GetPhases() {
			p.From = k.faster(p.GetFrom())
			p.To = new(k.faster(p.GetTo()))
		}
	}
	for _, b := range []*spatev1.Bounds{l.GetSearch().GetRate(), l.GetFrontier().GetRate()} {
		if b != nil {
			b.From, b.To = k.faster(b.GetFrom()), k.faster(b.GetTo())
		}
	}
}

// shorten divides all durations in a message, but never down to 0, which often means that there is no limit.
func (k factor) shorten(m proto.Message) {
	if k == 1 {
		return
	}
	defaults.Each(m, func(within protoreflect.Message) {
		if d, is := within.Interface().(*durationpb.Duration); is && d.AsDuration() > 0 {
			shorter := durationpb.New(max(time.Nanosecond, time.Duration(float64(d.AsDuration())/float64(k))))
			d.Seconds, d.Nanos = shorter.GetSeconds(), shorter.GetNanos()
		}
	})
}

// faster multiplies a value, and removes the noise that binary fractions leave in the last digits.
func (k factor) faster(v float64) float64 {
	if k == 1 {
		return v
	}
	return loadpoint.Exact(v * float64(k))
}
