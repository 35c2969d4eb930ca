package results

import (
	"fmt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// missing returns what the stage lacks to be complete, in words: that it ended early, and where the merged snapshots
// differ from the agents' totals. The result is empty if nothing is missing.
func (s sums) missing(rec *spatev1.StageRecord) []string {
	reasons := []string{}
	add := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	switch {
	case rec.GetStartTime() == nil && rec.GetFailure() != "":
		// Nothing else is worth saying: its agents had nothing to send.
		return []string{"the stage never started: " + rec.GetFailure()}
	case rec.GetStartTime() == nil:
		add("the stage never started")
	case !rec.GetEnded():
		add("the stage did not end: the coordinator died or is still working on it")
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
func (s sums) agentMissing(rec *spatev1.StageRecord, assigned *spatev1.AssignedAgent) (reasons []string) {
	a := s.Agent(assigned)
	if a.Loss != nil {
		reasons = append(reasons, s.lostPart(rec.GetStage(), assigned, a))
		if a.Totals == nil {
			return reasons
		}
		// The agent reached its end and delivered everything.
		return append(reasons, a.Discrepancies()...)
	}
	if failure := assigned.GetFailure(); failure != "" {
		reasons = append(reasons, "failed: "+failure)
	}
	if a.Totals == nil {
		return append(reasons, "sent no totals")
	}
	if failure := a.Totals.GetFailure(); failure != "" {
		reasons = append(reasons, "ended early: "+failure)
	} else if a.Totals.GetStopped() && !rec.GetStopped() && rec.GetFailure() == "" {
		reasons = append(reasons, "was stopped before its end")
	}
	return append(reasons, a.Discrepancies()...)
}
