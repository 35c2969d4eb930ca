package defaults

import (
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

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
