package plans

import (
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

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
	t.RequestTimeout = k.shorter(t.GetRequestTimeout())
	t.FirstTokenTimeout = k.shorter(t.GetFirstTokenTimeout())
	t.GapTimeout = k.shorter(t.GetGapTimeout())
}

// workload changes the think times and delays of a workload whose sessions are played, or of the parts of a mixture.
func (k factor) workload(w *spatev1.Workload) {
	for _, part := range w.GetMix().GetParts() {
		k.slo(part.GetSlo())
	}
	for _, part := range content.Parts(w) {
		play, _ := content.Play(part)
		k.thinkTime(play.GetThinkTime())
		if play != nil && play.DelayScale != nil {
			play.DelayScale = new(play.GetDelayScale() / float64(k))
		}
	}
}

// load changes the rates and durations of a load point. A concurrency is not a rate.
func (k factor) load(l *spatev1.LoadPoint) {
	l.Rate = k.faster(l.GetRate())
	l.ReplaySpeed = k.faster(l.GetReplaySpeed())
	l.Duration = k.shorter(l.GetDuration())
	l.WarmupDuration = k.shorter(l.GetWarmupDuration())
	l.WarmupUntilSteady = k.shorter(l.GetWarmupUntilSteady())
	l.Cooldown = k.shorter(l.GetCooldown())
	l.Stagger = k.shorter(l.GetStagger())
	k.thinkTime(l.GetThinkTime())
	for _, p := range l.GetPhases() {
		p.Duration = k.shorter(p.GetDuration())
		if l.GetConcurrency() == 0 {
			p.From = k.faster(p.GetFrom())
			p.To = new(k.faster(p.GetTo()))
		}
	}
	if l.GetAbort() != nil {
		l.Abort.Duration = k.shorter(l.GetAbort().GetDuration())
	}
	for _, b := range []*spatev1.Bounds{l.GetSearch().GetRate(), l.GetFrontier().GetRate()} {
		if b != nil {
			b.From, b.To = k.faster(b.GetFrom()), k.faster(b.GetTo())
		}
	}
	if l.GetChoose() != nil {
		l.Choose.Budget = k.shorter(l.GetChoose().GetBudget())
	}
	for _, keep := range []*spatev1.Objectives{l.GetSearch().GetKeep(), l.GetFrontier().GetKeep(),
		l.GetChoose().GetWithin()} {
		for _, limit := range keep.GetLatencies() {
			limit.AtMost = k.shorter(limit.GetAtMost())
		}
	}
}

// frame changes what the stages of a plan have in common.
func (k factor) frame(s *spatev1.Stage) {
	s.DrainTimeout = k.shorter(s.GetDrainTimeout())
	s.Pause = k.shorter(s.GetPause())
	k.slo(s.GetSlo())
}

func (k factor) slo(s *spatev1.SLO) {
	if s != nil {
		s.Ttft, s.Tpot, s.E2E = k.shorter(s.GetTtft()), k.shorter(s.GetTpot()), k.shorter(s.GetE2E())
	}
}

func (k factor) thinkTime(t *spatev1.ThinkTime) {
	if t != nil {
		t.Mean = k.shorter(t.GetMean())
	}
}

// shorter divides a duration, but never down to 0, which often means that there is no limit.
func (k factor) shorter(d *durationpb.Duration) *durationpb.Duration {
	if k == 1 || d == nil || d.AsDuration() <= 0 {
		return d
	}
	return durationpb.New(max(time.Nanosecond, time.Duration(float64(d.AsDuration())/float64(k))))
}

// faster multiplies a value, and removes the noise that binary fractions leave in the last digits.
func (k factor) faster(v float64) float64 {
	if k == 1 {
		return v
	}
	return loadpoint.Exact(v * float64(k))
}
