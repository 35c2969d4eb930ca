package report

import (
	"fmt"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/report/section"
)

// sessionsSection returns how long sessions took as tasks, and what of it were requests and delays.
func sessionsSection(stages []results.StageResult) section.Section {
	var rows [][]string
	for _, s := range stages {
		if x := s.Sessions; x != nil {
			rows = append(rows, []string{
				stageName(s), fmt.Sprint(x.Completed), fmt.Sprint(x.Broken), meanAndP99(x.Task),
				meanAndP99(x.TaskRequests), meanAndP99(x.TaskDelays),
			})
		}
	}
	if len(rows) == 0 {
		return section.Section{}
	}
	return section.New("Sessions",
		section.Text("Times are mean / p99 in ms, of sessions all of whose requests completed: from the first start to the "+
			"last end. The critical path is the chain of requests that ended last, each of which waited for the one "+
			"before; its delays are those of tools and users."),
		section.Table([]string{"Stage", "Completed", "Broken", "Task", "Requests on the critical path",
			"Delays on the critical path"}, rows))
}

// turnsSection returns how latency and the reuse of prefixes change over the turns of sessions.
func turnsSection(stages []results.StageResult) section.Section {
	var rows [][]string
	for _, s := range stages {
		if s.Sessions == nil {
			continue
		}
		for _, t := range s.Sessions.Turns {
			turn := fmt.Sprint(t.From)
			if t.To > t.From {
				turn = fmt.Sprintf("%d-%d", t.From, t.To)
			}
			perRequest := unknown
			if t.InputTokens != nil {
				perRequest = fixed(new(float64(*t.InputTokens) / float64(t.Completed)))
			}
			rows = append(rows, []string{
				stageName(s), turn, fmt.Sprint(t.Completed), meanAndP99(t.TTFT), meanAndP99(t.E2E), perRequest,
				fixedPercent(t.PrefixCache.SharedShare), fixedPercent(t.PrefixCache.CachedShare),
			})
		}
	}
	if len(rows) == 0 {
		return section.Section{}
	}
	return section.New("Turns of sessions",
		section.Text("Times are mean / p99 in ms, of completed requests. Shared: prompt tokens that an earlier request "+
			"began with too, by the workload. Cached: those that the server took from its prefix cache, by its usage."),
		section.Table([]string{"Stage", "Turn", "Requests", "TTFT", "E2E latency", "Prompt tokens of a request",
			"Shared (%)", "Cached (%)"}, rows))
}
