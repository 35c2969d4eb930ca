package points

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Limits of a burst of errors. A burst starts with a window in which at least minFailures requests failed, and at least
// one in failureShare of those that ended, after calmWindows windows in which this was not the case.
const (
	minFailures  = 5
	failureShare = 10
	calmWindows  = 10
)

// Bursts finds bursts of errors in the windows of one stage, which See takes in order. The zero value is ready for use
// and may start at any window. What it finds depends only on the last calmWindows windows. If it does not start at
// window 0, it reports nothing for the first calmWindows windows.
type Bursts struct {
	started bool
	first   uint32 // first window seen
	last    uint32 // window of the last burst
	any     bool   // there was a burst
}

// See takes the next window. It returns the event of a burst that starts with this window, and false if none does.
func (b *Bursts) See(run Run, scope sink.Scope, rec *spatev1.StageRecord, v merge.View) (sink.EventPoint, bool) {
	if !b.started {
		b.started, b.first = true, v.Window
	}
	ended, failed := v.Total.Counters.GetCompleted()+v.Total.Counters.GetFailed(), v.Total.Counters.GetFailed()
	if failed < minFailures || failed*failureShare < ended {
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

// classes lists the numbers of failures by class, the largest first.
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
