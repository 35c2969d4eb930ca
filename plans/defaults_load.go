package plans

import (
	"cmp"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Defaults of a load.
const (
	defaultAfterRequests = 20
	defaultWithin        = 0.05
	defaultConfidence    = 0.95
	defaultSweepPoints   = 8
	defaultSaturation    = 512
	defaultPrecision     = 0.03
	defaultProbes        = 15
	defaultSearchRepeats = 1
	defaultShape         = "linear"
	defaultDistribution  = "constant"
)

// Ways to split the arrivals of an open loop over agents.
const (
	splitRandom = "random"
	splitInTurn = "in_turn"
)

func filledThinkTime(t *spatev1.ThinkTime) *spatev1.ThinkTime {
	t = proto.CloneOf(t)
	if t != nil {
		t.Distribution = cmp.Or(t.Distribution, defaultDistribution)
	}
	return t
}

func filledAbort(a *spatev1.Abort) *spatev1.Abort {
	a = proto.CloneOf(a)
	if a != nil && a.ErrorShare != nil {
		a.AfterRequests = cmp.Or(a.AfterRequests, defaultAfterRequests)
	}
	return a
}

func filledPrecision(p *spatev1.Precision) *spatev1.Precision {
	p = proto.CloneOf(p)
	if p != nil {
		p.Within = cmp.Or(p.Within, defaultWithin)
		p.Confidence = cmp.Or(p.Confidence, defaultConfidence)
	}
	return p
}

// filledPhases returns a copy of the phases with their shape and the value at the end of each.
func filledPhases(phases []*spatev1.Phase) []*spatev1.Phase {
	var filled []*spatev1.Phase
	for _, p := range phases {
		p = proto.CloneOf(p)
		p.To = proto.Float64(phaseEnd(p))
		p.Shape = cmp.Or(p.Shape, defaultShape)
		filled = append(filled, p)
	}
	return filled
}

func filledSweep(s *spatev1.Sweep) *spatev1.Sweep {
	s = proto.CloneOf(s)
	s.Points = cmp.Or(s.Points, defaultSweepPoints)
	s.Saturation = cmp.Or(s.Saturation, defaultSaturation)
	return s
}

func filledSearch(s *spatev1.Search) *spatev1.Search {
	s = proto.CloneOf(s)
	s.Precision = cmp.Or(s.Precision, defaultPrecision)
	s.Probes = cmp.Or(s.Probes, defaultProbes)
	s.Repeats = cmp.Or(s.Repeats, defaultSearchRepeats)
	return s
}
