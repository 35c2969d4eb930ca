package aggregate

import (
	"fmt"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Missing returns what the stage lacks to be complete, in words: that it ended early, and where the merged snapshots
// differ from the agents' totals. The result is empty if nothing is missing.
func (s *Stage) Missing(rec *spatev1.StageRecord) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(rec)
	return s.missing(rec)
}

// missing is Missing. The caller must hold the lock.
func (s *Stage) missing(rec *spatev1.StageRecord) []string {
	reasons := []string{}
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	switch {
	case rec.GetStartTime() == nil && rec.GetFailure() != "":
		// Nothing else is worth saying: its agents had nothing to send.
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
			continue // an observer has no part in the load
		}
		for _, reason := range s.agentMissing(rec, assigned) {
			add("agent %s %s", processName(rec, i), reason)
		}
	}
	return reasons
}

// processName returns the name of the i-th agent of a stage. If it is not the first process of that name, it has a
// number.
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

// agentMissing returns what is missing of an agent's measurements, in words.
func (s *Stage) agentMissing(rec *spatev1.StageRecord, assigned *spatev1.AssignedAgent) (reasons []string) {
	a, _ := s.find(keyOf(assigned))
	if a.loss != nil {
		reasons = append(reasons, s.lostPart(assigned, a))
		if a.totals == nil {
			return reasons
		}
		// The agent reached its end and delivered everything.
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

// discrepancies returns how an agent's snapshots differ from its totals, in words.
func (a *agentTally) discrepancies() []string {
	if gap := a.snapshotsMissing(); gap != "" {
		return []string{gap} // with snapshots missing, the sums differ anyway
	}
	return a.differences()
}

// snapshotsMissing returns how the number of snapshots differs from the one in the totals, or "".
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

// differences returns how the sums of the snapshots differ from the totals, in words.
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

// sharesMissing returns where the tokens, chunks and requests assigned to windows differ from the counted ones, in
// words.
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

// million is the number of parts into which agents divide a request among windows.
const million = 1_000_000
