package plans

import (
	"fmt"
	"math"
	"time"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Warnings returns what is valid in a plan but hardly intended: each percentile of a search or a frontier that its
// stages cannot know, all of them or those at low rates. How many requests a closed loop makes in a duration is not
// known before.
func (p *Plan) Warnings() (found Mistakes) {
	for i, l := range p.msg.GetLoads() {
		for kind, keep := range map[string]*spatev1.Objectives{
			"search": l.GetSearch().GetKeep(), "frontier": l.GetFrontier().GetKeep(),
		} {
			for j, limit := range keep.GetLatencies() {
				if why := tooFew(l, limit.GetPercentile()); why != "" {
					found = append(found, p.Mistake(
						fmt.Sprintf("loads[%d].%s.keep.latencies[%d].percentile", i, kind, j), why))
				}
			}
		}
	}
	return found
}

// tooFew returns why stages of a load are too short to know a percentile. Empty: they are not, or that is not known.
func tooFew(l *spatev1.Load, percentile float64) string {
	need, seconds := float64(loadpoint.ValuesFor(percentile)), l.GetDuration().AsDuration().Seconds()
	rate := l.GetSearch().GetRate()
	if l.GetFrontier() != nil {
		rate = l.GetFrontier().GetRate()
	}
	known := fmt.Sprintf("p%s is known from %.0f requests on, ten of which lie beyond it", loadpoint.Number(percentile), need)
	switch count := float64(l.GetRequests()); {
	case count > 0 && count < need:
		return fmt.Sprintf("%s, and no stage has more than %.0f: give requests: %.0f, or a lower percentile", known, count, need)
	case seconds == 0 || rate == nil || rate.GetFrom()*seconds >= need:
		return ""
	case rate.GetTo()*seconds < need:
		return fmt.Sprintf("%s, and a stage of %s has %.0f at most: give a duration of %s or more, or a lower percentile",
			known, l.GetDuration().AsDuration(), rate.GetTo()*seconds, lasting(need/rate.GetTo()))
	}
	return fmt.Sprintf("%s, and a stage of %s has fewer below %.4g req/s, where it is known by its slowest requests "+
		"alone: begin there, give a duration of %s, or a lower percentile", known, l.GetDuration().AsDuration(),
		need/seconds, lasting(need/rate.GetFrom()))
}

// lasting returns a duration in whole seconds, rounded up.
func lasting(seconds float64) time.Duration { return time.Duration(math.Ceil(seconds)) * time.Second }
