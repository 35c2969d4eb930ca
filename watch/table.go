package watch

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// colourOf returns the colour of a verdict, or of the state of a stage.
func colourOf(state string) table.Colour {
	switch state {
	case "SUSPECT":
		return table.Suspect
	case "INVALID", "failed", "incomplete":
		return table.Bad
	}
	return table.Plain
}

// Columns of what a region or an agent measured; wholeHead if answers come in one piece.
var (
	partHead  = []string{"req/s", "failed", "output/s", "TTFT p50", "p99", "TPOT p50", "p99", "E2E p99"}
	wholeHead = []string{"req/s", "failed", "E2E p50", "p99"}
)

// partHeadOf returns the columns of a part of a window. whole: answers come in one piece.
func partHeadOf(whole bool) []string {
	if whole {
		return wholeHead
	}
	return partHead
}

// wholeAnswers reports whether answers come in one piece in the stage of a window, which may be nil.
func wholeAnswers(r *Run, last *spatev1.StageWindow) bool {
	s := r.Stage(last.GetStageIndex())
	return last != nil && s != nil && s.Started.GetWhole()
}

// partCells returns what a region or an agent measured in the last window. whole: answers come in one piece.
func partCells(p *spatev1.WindowPart, whole bool) []string {
	if p == nil {
		return slices.Repeat([]string{Unknown}, len(partHeadOf(whole)))
	}
	output := p.GetFramesPerSecond()
	if p.OutputTokensPerSecond != nil {
		output = p.GetOutputTokensPerSecond()
	}
	seconds := float64(max(1, p.GetSeconds()))
	cells := []string{Rate(float64(p.GetCompleted()) / seconds), words.Thousands(p.GetFailed()), Rate(output)}
	of := func(metric string) *spatev1.WindowDistribution { return Distribution(p, metric) }
	ttft, tpot, e2e := of("ttft_ms"), of("tpot_ms"), of("e2e_ms")
	if whole {
		return append(cells[:2], Milliseconds(e2e, e2e.GetP50()), Milliseconds(e2e, e2e.GetP99()))
	}
	return append(cells, Milliseconds(ttft, ttft.GetP50()), Milliseconds(ttft, ttft.GetP99()),
		Milliseconds(tpot, tpot.GetP50()), Milliseconds(tpot, tpot.GetP99()), Milliseconds(e2e, e2e.GetP99()))
}

// Agents returns the agents of a run by region and name, and what each measured in a window, which may be nil.
func Agents(r *Run, last *spatev1.StageWindow) *table.Table {
	all := slices.Clone(r.Agents())
	slices.SortStableFunc(all, func(a, b *Agent) int {
		return cmp.Or(cmp.Compare(a.Info.GetRegion(), b.Info.GetRegion()),
			cmp.Compare(a.Info.GetName(), b.Info.GetName()))
	})
	whole := wholeAnswers(r, last)
	t := table.New(table.Words("agent", "region", "state"), table.Numbers(partHeadOf(whole)...))
	for _, a := range all {
		row := t.Add(append([]string{
			Clean(a.Info.GetName()), Clean(cmp.Or(a.Info.GetRegion(), "-")), agentState(a, last),
		}, partCells(latest(a, last), whole)...)...)
		if a.Lost {
			row.Colour = table.Bad
		}
	}
	return t
}

// latest returns what an agent measured in the last window, nil if it measured nothing or that is not known.
func latest(a *Agent, last *spatev1.StageWindow) *spatev1.WindowPart {
	if last == nil || a.Stage != last.GetStageIndex() || a.Window != last.GetNumber() {
		return nil
	}
	return a.Latest
}

// agentState says how an agent does, as far as events tell.
func agentState(a *Agent, last *spatev1.StageWindow) string {
	switch {
	case a.Lost:
		return "lost"
	case len(last.GetAgents()) > 0 && latest(a, last) == nil:
		return "idle"
	case a.Joined:
		return "joined"
	}
	return "ok"
}

// Regions returns what each region measured in a window, which may be nil.
func Regions(r *Run, last *spatev1.StageWindow) *table.Table {
	agents := map[string]int{}
	for _, a := range r.Agents() {
		if !a.Lost {
			agents[a.Info.GetRegion()]++
		}
	}
	whole := wholeAnswers(r, last)
	t := table.New(table.Words("region"), table.Numbers("agents"), table.Numbers(partHeadOf(whole)...))
	for _, p := range last.GetRegions() {
		t.Add(append([]string{Clean(p.GetName()), fmt.Sprint(agents[p.GetName()])}, partCells(p, whole)...)...)
	}
	return t
}

// Stages returns all stages of a run that started or were skipped, in the order of watch.Run.All.
func Stages(r *Run) *table.Table {
	all := r.All()
	whole := len(all) > 0 && !slices.ContainsFunc(all, func(s *Stage) bool { return !s.Started.GetWhole() })
	head := []string{"output/s", "TTFT p50", "p99", "TPOT p50", "p99"}
	if whole { // all answers come in one piece
		head = []string{"req/s", "E2E p50", "p99"}
	}
	t := table.New(table.Words("stage", "target", "workload", "load", "state"), table.Numbers("done", "failed"),
		table.Numbers(head...))
	for _, s := range all {
		p, state := s.Progress, stageState(s)
		cells := []string{
			fmt.Sprint(s.Index + 1), Clean(s.Started.GetTarget()), Clean(s.Started.GetWorkload()),
			Clean(s.Started.GetLoad()), state, Count(s, Completed(p)), Count(s, p.GetFailed()), outputOf(s),
		}
		if !whole && s.Started.GetWhole() {
			cells[len(cells)-1] = Unknown // its requests are not what others have here
		}
		latencies := []*spatev1.Quantiles{p.GetTtft(), p.GetTpot()}
		if whole {
			latencies = []*spatev1.Quantiles{p.GetE2E()}
		}
		for _, q := range latencies {
			cells = append(cells, quantile(q.GetP50Ms(), q), quantile(q.GetP99Ms(), q))
		}
		t.Add(cells...).Colour = colourOf(state)
	}
	return t
}

// stageState says how a stage goes or ended, in a word.
func stageState(s *Stage) string {
	switch {
	case s.Started == nil:
		return "not run"
	case s.Ended == nil:
		return "running"
	case s.Ended.GetFailure() != "":
		return "failed"
	case !s.Ended.GetComplete():
		return "incomplete"
	}
	return cmp.Or(Clean(s.Verdict), "ended")
}

// noOutput reports whether the output of a stage is not known: before its first frame it is not known either whether
// the server counts tokens. The last progress of a stage has no frames.
func noOutput(s *Stage) bool {
	p := s.Progress
	return p.OutputTokensPerSecond == nil && p.GetFramesPerSecond() == 0 && (p.GetTtft() == nil || s.Ended != nil)
}

// outputOf returns the output per second of a stage: its requests, if answers come in one piece.
func outputOf(s *Stage) string {
	p := s.Progress
	switch {
	case s.Started.GetWhole() && (p == nil || p.CompletedPerSecond == nil):
		return Unknown
	case s.Started.GetWhole():
		return Rate(p.GetCompletedPerSecond())
	case p == nil, noOutput(s):
		return Unknown
	case p.OutputTokensPerSecond != nil:
		return Rate(p.GetOutputTokensPerSecond())
	}
	return Rate(p.GetFramesPerSecond())
}
