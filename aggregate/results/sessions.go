package results

import (
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// sessions returns the results of a stage's sessions. It returns nil if the workload does not play any.
func (s sums) sessions(w *spatev1.Workload) *Sessions {
	if !content.PlaysSessions(w) {
		return nil
	}
	r := &Sessions{
		Completed:    s.Total.Counters.GetCompletedSessions(),
		Broken:       s.Total.Counters.GetBrokenSessions(),
		Task:         s.Total.Summary(spatev1.Metric_METRIC_TASK),
		TaskRequests: s.Total.Summary(spatev1.Metric_METRIC_TASK_REQUESTS),
		TaskDelays:   s.Total.Summary(spatev1.Metric_METRIC_TASK_DELAYS),
		Turns:        []TurnResult{},
	}
	for class, t := range s.Turns {
		if t.Counters.GetCompleted() == 0 {
			continue
		}
		first, last := measure.TurnsOf(class)
		r.Turns = append(r.Turns, TurnResult{
			From: first, To: last, Completed: t.Counters.GetCompleted(),
			TTFT: t.Summary(spatev1.Metric_METRIC_TTFT), E2E: t.Summary(spatev1.Metric_METRIC_E2E),
			InputTokens: merge.InputTokens(t.Counters), PrefixCache: prefixCacheOf(t.Counters),
		})
	}
	return r
}
