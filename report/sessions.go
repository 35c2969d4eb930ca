package report

import (
	"fmt"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
)

// sessionsSection returns how long sessions took as tasks, and what of it were requests and delays.
func sessionsSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Sessions",
		"Times are mean / p99 in ms, of sessions all of whose requests completed: from the first start to the last end. "+
			"The critical path is the chain of requests that ended last, each of which waited for the one before; its "+
			"delays are those of tools and users.",
		[]string{"Stage", "Completed", "Broken", "Task", "Requests on the critical path", "Delays on the critical path"},
		func(s results.StageResult, add func(...any)) {
			if x := s.Sessions; x != nil {
				add(stageName(s), x.Completed, x.Broken, meanAndP99(x.Task), meanAndP99(x.TaskRequests),
					meanAndP99(x.TaskDelays))
			}
		})
}

// turnsSection returns how latency and the reuse of prefixes change over the turns of sessions.
func turnsSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Turns of sessions",
		"Times are mean / p99 in ms, of completed requests. Shared: prompt tokens that an earlier request began with too, "+
			"by the workload. Cached: those that the server took from its prefix cache, by its usage.",
		[]string{"Stage", "Turn", "Requests", "TTFT", "E2E latency", "Prompt tokens of a request", "Shared (%)",
			"Cached (%)"},
		func(s results.StageResult, add func(...any)) {
			if s.Sessions == nil {
				return
			}
			for _, t := range s.Sessions.Turns {
				turn := fmt.Sprint(t.From)
				if t.To > t.From {
					turn = fmt.Sprintf("%d-%d", t.From, t.To)
				}
				var perRequest *float64
				if t.InputTokens != nil {
					perRequest = new(float64(*t.InputTokens) / float64(t.Completed))
				}
				add(stageName(s), turn, t.Completed, meanAndP99(t.TTFT), meanAndP99(t.E2E), perRequest,
					fixedPercent(t.PrefixCache.SharedShare), fixedPercent(t.PrefixCache.CachedShare))
			}
		})
}
