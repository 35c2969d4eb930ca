package aggregate

import (
	"fmt"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Missing says what the stage lacks to be complete, in words: that it ended before its time, and where what was merged
// is not what the agents say they measured. Empty: nothing.
func (s *Stage) Missing(rec *spatev1.StageRecord) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(rec)
	return s.missing(rec)
}

// missing is Missing under the lock.
func (s *Stage) missing(rec *spatev1.StageRecord) []string {
	reasons := []string{}
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	switch {
	case rec.GetStartTime() == nil && rec.GetFailure() != "":
		// What its agents did not send then is no news.
		return []string{"the stage never started: " + rec.GetFailure()}
	case rec.GetStartTime() == nil:
		add("the stage never started")
	case !rec.GetEnded():
		add("the stage did not end: the coordinator died or is still at it")
	}
	if rec.GetStopped() {
		add("the stage was stopped before its end")
	}
	if rec.GetFailure() != "" {
		add("the stage ended early: %s", rec.GetFailure())
	}
	if len(rec.GetAgents()) == 0 {
		add("no agent took part")
	}
	for i, assigned := range rec.GetAgents() {
		if assigned.GetObserver() {
			continue // it has no part in the load
		}
		for _, reason := range s.agentMissing(rec, assigned) {
			add("agent %s %s", processName(rec, i), reason)
		}
	}
	return reasons
}

// processName is the name of the i-th agent of a stage. A process that came after another one of its name is told apart
// by its place.
func processName(rec *spatev1.StageRecord, i int) string {
	name, place := rec.GetAgents()[i].GetAgent().GetName(), 1
	for _, before := range rec.GetAgents()[:i] {
		if before.GetAgent().GetName() == name {
			place++
		}
	}
	if place == 1 {
		return name
	}
	return fmt.Sprintf("%s, process %d of this name", name, place)
}

// agentMissing says what is missing of an agent's part.
func (s *Stage) agentMissing(rec *spatev1.StageRecord, assigned *spatev1.AssignedAgent) (reasons []string) {
	a, _ := s.find(keyOf(assigned))
	if a.loss != nil {
		reasons = append(reasons, s.lostPart(assigned, a))
		if a.totals == nil {
			return reasons
		}
		// It ended its part by itself and delivered all of it.
		return append(reasons, a.discrepancies()...)
	}
	if failure := assigned.GetFailure(); failure != "" {
		reasons = append(reasons, "failed: "+failure)
	}
	if a.totals == nil {
		return append(reasons, "sent no totals")
	}
	if failure := a.totals.GetFailure(); failure != "" {
		reasons = append(reasons, "ended early: "+failure)
	} else if a.totals.GetStopped() && !rec.GetStopped() && rec.GetFailure() == "" {
		reasons = append(reasons, "was stopped before its end")
	}
	return append(reasons, a.discrepancies()...)
}

// discrepancies compares what came with the totals.
func (a *agentTally) discrepancies() []string {
	if gap := a.snapshotsMissing(); gap != "" {
		return []string{gap} // the sums differ of course
	}
	return a.differences()
}

// snapshotsMissing compares the snapshots that came with those that the totals tell of.
func (a *agentTally) snapshotsMissing() string {
	want := a.totals.GetSnapshots()
	switch {
	case a.snapshots < want:
		return fmt.Sprintf("lacks %d of its %d snapshots", want-a.snapshots, want)
	case a.snapshots > want:
		return fmt.Sprintf("has %d snapshots, but its totals tell of %d", a.snapshots, want)
	case a.last-a.first+1 != want || a.last != a.closing:
		return fmt.Sprintf("has %d snapshots numbered %d to %d, closed by %d: there is a gap", want, a.first,
			a.last, a.closing)
	}
	return ""
}

// differences compares the sums with the totals.
func (a *agentTally) differences() (reasons []string) {
	merged, totals := measure.CountsOf(a.counters), measure.CountsOf(a.totals.GetCounters())
	for _, c := range measure.Counters() {
		if merged[c] != totals[c] {
			reasons = append(reasons, fmt.Sprintf("has %s %d in its snapshots, but %d in its totals", c,
				merged[c], totals[c]))
		}
	}
	reasons = append(reasons, a.sharesMissing(&merged)...)
	var values [measure.Count]uint64
	for _, v := range a.totals.GetValues() {
		if measure.Known(v.GetMetric()) {
			values[v.GetMetric()] += v.GetCount()
		}
	}
	for _, m := range measure.Metrics() {
		if a.recorded[m.ID] != values[m.ID] {
			reasons = append(reasons, fmt.Sprintf("has %d values of %s in its snapshots, but %d in its totals",
				a.recorded[m.ID], m.Name, values[m.ID]))
		}
	}
	return reasons
}

// sharesMissing compares what was shared out over windows with what there was to share out.
func (a *agentTally) sharesMissing(merged *measure.Counts) (reasons []string) {
	for _, c := range []struct {
		of           string
		shared, want uint64
	}{
		{"output tokens", a.shared.tokens, merged[measure.OutputTokens]},
		{"chunks", a.shared.chunks, merged[measure.Chunks]},
		{"millionths of requests", a.shared.requests, million * merged[measure.Completed]},
	} {
		if c.shared != c.want {
			reasons = append(reasons, fmt.Sprintf("has %d %s by window, but counted %d", c.shared, c.of, c.want))
		}
	}
	return reasons
}

// million is how many parts agents share a request out in.
const million = 1_000_000
