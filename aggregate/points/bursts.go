package points

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// What a burst of errors is: a window in which at least burstLeast requests failed, and those at least one in
// burstShare of all that ended in it, after calmWindows windows in which that was not so.
const (
	burstLeast  = 5
	burstShare  = 10
	calmWindows = 10
)

// Bursts finds bursts of errors in the windows of one stage, seen in their order. The zero value begins with the first
// window; what it finds depends on no more than the last calmWindows windows, so that it may begin anywhere: it says
// nothing of the first ones then.
type Bursts struct {
	begun bool
	first uint32 // window seen first
	last  uint32 // window of the last burst
	any   bool   // there was one
}

// See takes in the next window and returns the event of a burst that begins with it, false if none does.
func (b *Bursts) See(run Run, scope sink.Scope, rec *spatev1.StageRecord, v aggregate.View) (sink.EventPoint, bool) {
	if !b.begun {
		b.begun, b.first = true, v.Window
	}
	ended, failed := v.Total.Counters.GetCompleted()+v.Total.Counters.GetFailed(), v.Total.Counters.GetFailed()
	if failed < burstLeast || failed*burstShare < ended {
		return sink.EventPoint{}, false
	}
	calm := !b.any || v.Window-b.last > calmWindows
	b.any, b.last = true, v.Window
	if !calm || b.first > 0 && v.Window-b.first < calmWindows {
		return sink.EventPoint{}, false
	}
	at := sink.WindowPoint{StageStart: rec.GetStartTime().AsTime(), Window: v.Window}
	return sink.EventPoint{
		RunID: run.ID, Plan: run.Plan, Time: at.Time(), Kind: sink.ErrorBurst, Stage: &scope,
		Text: fmt.Sprintf("%d of %d requests that ended in second %d failed: %s", failed, ended, v.Window,
			classes(v.Total.Errors)),
	}, true
}

// classes lists failures by class, the most first.
func classes(errors map[string]uint64) string {
	names := slices.Sorted(maps.Keys(errors))
	slices.SortStableFunc(names, func(a, b string) int { return int(errors[b]) - int(errors[a]) })
	var parts []string
	for _, name := range names {
		if errors[name] > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", name, errors[name]))
		}
	}
	return strings.Join(parts, ", ")
}
