// Package defaults fills in what a plan leaves out. docs/plan.md and the pages it names list the defaults. Its
// functions return copies.
package defaults

import (
	"cmp"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Arrival is the default arrival process of an open loop.
const Arrival = "poisson"

// Other defaults of a load.
const (
	afterRequests = 20
	within        = 0.05
	confidence    = 0.95
	sweepPoints   = 8
	saturation    = 512
	precision     = 0.03
	probes        = 50
	searchRepeats = 1
	tolerance     = 0.1
	points        = 15
	metric        = "e2e"
	best          = "throughput"
	alike         = 0.01
	rounds        = 10
	distribution  = "constant"
)

// filled returns a copy of a message whose defaults are set, or nil if it is nil.
func filled[M proto.Message](m M, set func(M)) M {
	if m = proto.CloneOf(m); m.ProtoReflect().IsValid() {
		set(m)
	}
	return m
}

// ThinkTime returns a copy of t with its defaults, or nil if t is nil.
func ThinkTime(t *spatev1.ThinkTime) *spatev1.ThinkTime {
	return filled(t, func(t *spatev1.ThinkTime) { t.Distribution = cmp.Or(t.Distribution, distribution) })
}

// Canaries returns a copy of c with its defaults, or nil if c is nil.
func Canaries(c *spatev1.Canaries) *spatev1.Canaries {
	const share = 0.02
	return filled(c, func(c *spatev1.Canaries) { c.Share = cmp.Or(c.Share, share) })
}

// Abort returns a copy of a with its defaults, or nil if a is nil.
func Abort(a *spatev1.Abort) *spatev1.Abort {
	return filled(a, func(a *spatev1.Abort) {
		if a.ErrorShare != nil {
			a.AfterRequests = cmp.Or(a.AfterRequests, afterRequests)
		}
	})
}

// Precision returns a copy of p with its defaults, or nil if p is nil.
func Precision(p *spatev1.Precision) *spatev1.Precision {
	return filled(p, func(p *spatev1.Precision) {
		p.Within, p.Confidence = cmp.Or(p.Within, within), cmp.Or(p.Confidence, confidence)
	})
}

// Phases returns a copy of the phases with the value at the end of each.
func Phases(phases []*spatev1.Phase) []*spatev1.Phase {
	var filled []*spatev1.Phase
	for _, p := range phases {
		p = proto.CloneOf(p)
		p.To = new(PhaseEnd(p))
		filled = append(filled, p)
	}
	return filled
}

// Sweep returns a copy of s with its defaults.
func Sweep(s *spatev1.Sweep) *spatev1.Sweep {
	return filled(s, func(s *spatev1.Sweep) {
		s.Points, s.Saturation = cmp.Or(s.Points, sweepPoints), cmp.Or(s.Saturation, saturation)
	})
}

// Search returns a copy of s with its defaults.
func Search(s *spatev1.Search) *spatev1.Search {
	return filled(s, func(s *spatev1.Search) {
		s.Precision, s.Probes = cmp.Or(s.Precision, precision), cmp.Or(s.Probes, probes)
		s.Repeats = cmp.Or(s.Repeats, searchRepeats)
	})
}

// Frontier returns a copy of f with its defaults.
func Frontier(f *spatev1.Frontier) *spatev1.Frontier {
	return filled(f, func(f *spatev1.Frontier) {
		f.Metric, f.Points = cmp.Or(f.Metric, metric), cmp.Or(f.Points, points)
		f.Tolerance = cmp.Or(f.Tolerance, tolerance)
	})
}

// Choose returns a copy of c with its defaults, or nil if c is nil.
func Choose(c *spatev1.Choose) *spatev1.Choose {
	return filled(c, func(c *spatev1.Choose) {
		c.Best, c.Rounds = cmp.Or(c.Best, best), cmp.Or(c.Rounds, rounds)
		c.Tolerance = cmp.Or(c.Tolerance, alike)
	})
}

// PhaseEnd returns the value at a phase's end.
func PhaseEnd(p *spatev1.Phase) float64 {
	if p.To == nil { //nolint:protogetter // whether it is given is what counts
		return p.GetFrom()
	}
	return p.GetTo()
}

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

// WholeLimits returns those of the limits that an answer in one piece can be held to: its E2E is known, and no time of
// a token. Nil: there are none.
func WholeLimits(s *spatev1.SLO) *spatev1.SLO {
	if s.GetE2E() == nil {
		return nil
	}
	return &spatev1.SLO{E2E: s.GetE2E()}
}

// Limits returns a workload and an SLO as a target can be held to them, for a stage: without limits on the times of
// tokens, if answers come in one piece. It returns those given, if nothing changes, and does not change them. A mixture
// has its limits in its parts then.
func Limits(t *spatev1.Target, w *spatev1.Workload, slo *spatev1.SLO) (*spatev1.Workload, *spatev1.SLO) {
	switch {
	case Streams(t):
		return w, slo
	case w.GetMix() == nil:
		return w, WholeLimits(slo)
	}
	limits := content.SLOs(&spatev1.Stage{Workload: w, Slo: slo})
	w = proto.CloneOf(w)
	for i, part := range w.GetMix().GetParts() {
		part.Slo = WholeLimits(limits[i])
	}
	return w, nil
}
