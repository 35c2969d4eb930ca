package web

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/show"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// maxRows is how many agents a page lists: those that need attention first.
const maxRows = 100

// Home is the state that the page of all runs shows.
type Home struct {
	// Runs are the newest runs, the newest first.
	Runs []*spatev1.RunSummary
	// Queue are the waiting runs in the order of their start.
	Queue []*spatev1.RunSummary
	// Agents are all agents.
	Agents []*spatev1.AgentStatus
	// Now is the time to which a run in progress has taken.
	Now time.Time
}

// Parts returns the page's parts.
func (h Home) Parts() ([]Part, error) {
	view := map[string]any{"Runs": watch.Runs(h.Runs, h.Now, time.UTC), "Agents": len(h.Agents)}
	queue := lists.Each(h.Queue, func(r *spatev1.RunSummary) string { return watch.Clean(r.GetRunId()) })
	view["Queue"] = queue
	first := slices.Clone(h.Agents)
	slices.SortStableFunc(first, func(a, b *spatev1.AgentStatus) int {
		return cmp.Or(cmp.Compare(calm(a), calm(b)), cmp.Compare(a.GetAgent().GetRegion(), b.GetAgent().GetRegion()),
			cmp.Compare(a.GetAgent().GetName(), b.GetAgent().GetName()))
	})
	first, view["More"] = first[:min(len(first), maxRows)], max(0, len(first)-maxRows)
	view["Fleet"] = watch.Fleet(first)
	view["Counts"] = counts(h.Agents)
	view["Regions"] = regions(h.Agents)
	return parts(view, "runs", "agents")
}

// calm is 0 for an agent that needs attention.
func calm(a *spatev1.AgentStatus) int {
	if a.GetCordon() != spatev1.Cordon_CORDON_UNSPECIFIED {
		return 0
	}
	switch a.GetHealth() {
	case spatev1.AgentHealth_AGENT_HEALTH_READY, spatev1.AgentHealth_AGENT_HEALTH_BUSY:
		return 1
	}
	return 0
}

// counts says how many agents there are, by health, and how many take no new runs: "30 agents: 28 busy, 2 silent;
// 1 drained".
func counts(agents []*spatev1.AgentStatus) string {
	health, cordon := map[string]int{}, map[string]int{}
	for _, a := range agents {
		health[watch.Health(a.GetHealth())]++
		if c := watch.Cordon(a.GetCordon()); c != "" {
			cordon[c]++
		}
	}
	text := words.Count(uint64(len(agents)), "agent") + ": " + numbers(health)
	if len(cordon) > 0 {
		text += "; " + numbers(cordon)
	}
	return text
}

// numbers lists numbers by name: "28 busy, 2 silent".
func numbers(n map[string]int) string {
	return strings.Join(lists.Each(slices.Sorted(maps.Keys(n)), func(name string) string {
		return words.Thousands(uint64(n[name])) + " " + name
	}), ", ")
}

// regions counts agents by region. There is no table if all are in one.
func regions(agents []*spatev1.AgentStatus) *table.Table {
	by := map[string][]*spatev1.AgentStatus{}
	for _, a := range agents {
		by[a.GetAgent().GetRegion()] = append(by[a.GetAgent().GetRegion()], a)
	}
	t := table.New(table.Words("region", "agents"), table.Numbers("in flight"))
	if len(by) < 2 {
		return t
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		inFlight := lists.Sum(by[name], func(a *spatev1.AgentStatus) uint32 { return a.GetHeartbeat().GetInFlight() })
		t.Add(watch.Clean(cmp.Or(name, watch.Unknown)), counts(by[name]), words.Thousands(uint64(inFlight)))
	}
	return t
}

// Write writes the page. baseline is the run that is chosen as the baseline of a comparison, empty for the last but
// one.
func (h Home) Write(w io.Writer, f Frame, baseline string) error {
	ended := lists.Where(h.Runs, func(r *spatev1.RunSummary) bool {
		return r.GetState() == spatev1.RunState_RUN_STATE_ENDED
	})
	if baseline == "" && len(ended) > 1 {
		baseline = ended[1].GetRunId() // so that two different runs are chosen
	}
	return writePage(w, "home.html.tmpl", map[string]any{
		"Title": fmt.Sprintf("Spate: %s", words.Count(uint64(len(h.Runs)), "run")), "Events": f.Events, "Frame": f,
		"Ended": ended, "Baseline": baseline,
	})
}

// maxCharts is how many charts a history has.
const maxCharts = 20

// History is the state that the page of a number over runs shows.
type History struct {
	// Plans are all plans that have a history. Lines are what was asked for, for all targets.
	Plans []string
	Lines []*spatev1.HistoryLine
	// Plan, Target and Metric are those of the form. Empty: any.
	Plan, Target, Metric string
}

// Write writes the page.
func (h History) Write(w io.Writer, f Frame) error {
	var targets []string
	for _, l := range h.Lines {
		targets = words.AppendOnce(targets, l.GetTarget())
	}
	shown := lists.Where(h.Lines, func(l *spatev1.HistoryLine) bool {
		return h.Target == "" || l.GetTarget() == h.Target
	})
	more := max(0, len(shown)-maxCharts)
	shown = shown[:len(shown)-more]
	review, err := show.Review(shown, true)
	if err != nil {
		return err
	}
	return writePage(w, "history.html.tmpl", map[string]any{
		"Title": "Spate: history", "Events": "", "Frame": f, "Asked": h, "Targets": targets, "Metrics": compare.Metrics,
		"Shown": shown, "Review": review, "More": more,
	})
}
