package report

import (
	"cmp"
	"fmt"
	"math"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// agentSummary summarizes an agent over all stages.
type agentSummary struct {
	stages, completed, failed uint64
	startError, uncertainty   *float64 // of the start with the largest absolute error
	notes                     []string
}

// Agents returns what each agent did over all stages and how precisely it started.
func Agents(r *results.Result) *table.Table {
	summaries := make(map[string]*agentSummary)
	for _, s := range r.Stages {
		for _, a := range s.Agents {
			if summaries[a.Name] == nil {
				summaries[a.Name] = &agentSummary{}
			}
			summaries[a.Name].add(s, a)
		}
	}
	var rows [][]string
	for _, a := range r.Run.Agents {
		s := summaries[a.Name]
		if s == nil {
			s = &agentSummary{} // no stage began
		}
		rows = append(rows, texts(a.Name, cmp.Or(a.Region, unknown), cmp.Or(a.Host, unknown),
			cmp.Or(a.Version, unknown), s.stages, s.completed, s.failed,
			startWords(s.startError, s.uncertainty), strings.Join(s.notes, "; ")))
	}
	return table.Of([]string{"Agent", "Region", "Host", "Version", "Stages", "Completed", "Failed", "Worst start",
		"Notes"}, rows)
}

// add adds an agent's result of a stage.
func (a *agentSummary) add(s results.StageResult, part results.AgentResult) {
	a.stages++
	a.completed += part.Requests.Completed
	a.failed += part.Requests.Failed
	if e := part.StartErrorMs; e != nil && (a.startError == nil || math.Abs(*e) > math.Abs(*a.startError)) {
		a.startError, a.uncertainty = e, part.ClockUncertaintyMs
	}
	note := func(format string, args ...any) {
		a.notes = append(a.notes, fmt.Sprintf("stage %d: ", s.Index+1)+fmt.Sprintf(format, args...))
	}
	if part.JoinedS != nil {
		note("joined at second %s", shortest(*part.JoinedS))
	}
	if part.LeftS != nil {
		note("left at second %s", shortest(*part.LeftS))
	}
	switch l := part.Loss; {
	case l != nil && part.Failure != nil:
		note("%s (%s)", missing(part), *part.Failure)
	case l != nil:
		note("%s", missing(part))
	case part.Failure != nil:
		note("%s", *part.Failure)
	}
}

// missing returns, in words, what is missing because an agent was lost.
func missing(part results.AgentResult) string {
	l := part.Loss
	text := fmt.Sprintf("%s %% of the load missing from second %s on", shortest(100*l.Share), shortest(l.FromS))
	if l.UnsentFromS == nil {
		return text
	}
	requests := "requests"
	if n := part.NeverSent; n != nil && *n > 0 && !l.TakenOver { // others may have sent what they took over
		requests = words.Count(*n, "request")
	}
	return text + fmt.Sprintf("; %s never sent, due from second %s on", requests, shortest(*l.UnsentFromS))
}

// startWords returns how far from the armed start an agent started: "0.31 ms late ± 0.05 ms".
func startWords(startError, uncertainty *float64) string {
	if startError == nil {
		return unknown
	}
	side := "late"
	if *startError < 0 {
		side = "early"
	}
	return fmt.Sprintf("%.2f ms %s ± %s ms", math.Abs(*startError), side, fixed(uncertainty))
}

// startsSection returns, for each stage with several agents, how far apart they started.
func startsSection(stages []results.StageResult) table.Section {
	return sectionOf(stages, "Start", "", []string{"Stage", "Last agent's start - first agent's (ms)", "First", "Last"},
		func(s results.StageResult, add func(...any)) {
			if p := s.StartSpread; p != nil {
				add(stageName(s), fmt.Sprintf("%.2f ± %.2f", p.SpreadMs, p.UncertaintyMs), p.Earliest, p.Latest)
			}
		})
}

// times returns how often something happened, in words.
func times(n uint32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}
