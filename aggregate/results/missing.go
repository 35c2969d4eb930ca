package results

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
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
	case !rec.GetEnded(): // a stage that failed on a full disk has no end
		add("the stage did not end: %s", cmp.Or(rec.GetFailure(), "the coordinator died or is still working on it"))
	case rec.GetFailure() != "":
		add("the stage ended early: %s", rec.GetFailure())
	}
	if rec.GetStopped() {
		add("the stage was stopped before its end")
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
	name := rec.GetAgents()[i].GetAgent().GetName()
	same := func(before *spatev1.AssignedAgent) bool { return before.GetAgent().GetName() == name }
	place := 1 + lists.Count(rec.GetAgents()[:i], same)
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
	said := rec.GetFailure() // a stage says why it ended early, its agents only what else happened to them
	if failure := assigned.GetFailure(); failure != "" && !strings.HasSuffix(said, failure) {
		reasons, said = append(reasons, "failed: "+failure), failure
	}
	if a.Totals == nil {
		return append(reasons, "sent no totals")
	}
	if failure := a.Totals.GetFailure(); failure != "" {
		if !strings.HasSuffix(said, failure) {
			reasons = append(reasons, "ended early: "+failure)
		}
	} else if a.Totals.GetStopped() && !rec.GetStopped() && rec.GetFailure() == "" {
		reasons = append(reasons, "was stopped before its end")
	}
	return append(reasons, a.Discrepancies()...)
}

// lostPart returns in words what was lost with an agent.
func (s sums) lostPart(st *spatev1.Stage, assigned *spatev1.AssignedAgent, a *merge.Agent) string {
	l := s.lossOf(st.GetLoad(), a)
	text := fmt.Sprintf("(%s %% of the load) lost: %s", significant(100*l.Share), l.words())
	if l.UnsentFromS != nil {
		text += fmt.Sprintf("; it never sent %s, due from second %s on", unsent(a), significant(*l.UnsentFromS))
	}
	if content.PlaysSessions(st.GetWorkload()) {
		text += "; the sessions that it had begun have no further turns"
	}
	if reason := cmp.Or(assigned.GetFailure(), a.Totals.GetFailure()); reason != "" {
		text += " (" + strings.TrimPrefix(reason, "lost: ") + ")"
	}
	return text
}

// unsent returns in words what an agent never sent. The number is not known if a damaged ledger lost its totals, if a
// closed loop ends by its time, or if others took over the agent's part and may have sent some of these requests.
func unsent(a *merge.Agent) string {
	if a.Totals.GetNeverSent() == 0 || a.Loss.TakenOverNs != nil {
		return "requests"
	}
	return words.Count(a.Totals.GetNeverSent(), "request")
}

// lossOf describes what was lost with an agent of a load. It returns nil if the agent was not lost.
func (s sums) lossOf(load *spatev1.LoadPoint, a *merge.Agent) *Loss {
	if a.Loss == nil {
		return nil
	}
	l := &Loss{Share: a.Loss.GetShare(), FromS: float64(a.Loss.GetFromWindow())}
	if a.Loss.UnsentFromWindow != nil {
		l.UnsentFromS = new(float64(a.Loss.GetUnsentFromWindow()))
	}
	if a.Loss.TakenOverNs != nil {
		taken := float64(a.Loss.GetTakenOverNs()) / nanosPerSecond
		l.TakenOver, l.ToS = true, &taken
		return l
	}
	if _, end, ok := s.Span(); ok && s.anyLasted() && !endsByRequests(load) {
		l.ToS = new(max(math.Ceil(float64(end)/nanosPerSecond), l.FromS))
	}
	return l
}

// anyLasted reports whether an agent had its part of the load up to the stage's end. Otherwise the last measurement is
// not the end: the rest of the load was never sent.
func (s sums) anyLasted() bool {
	for _, a := range s.Agents {
		if a.Loss == nil && a.Totals != nil {
			return true
		}
	}
	return false
}

// endsByRequests reports whether each agent's part of a load ends with its own requests, so that the others' end does
// not tell when a lost agent's part would have ended.
func endsByRequests(l *spatev1.LoadPoint) bool { return l.GetConcurrency() > 0 && l.GetRequests() > 0 }

// words returns which seconds are missing.
func (l *Loss) words() string {
	switch from := significant(l.FromS); {
	case l.ToS == nil || !l.TakenOver && *l.ToS > l.FromS:
		return "all is missing from second " + from + " on"
	case *l.ToS > l.FromS:
		return "seconds " + from + " to " + significant(*l.ToS) + " are missing, then taken over"
	case l.TakenOver:
		return "what it had not delivered by second " + from + " is missing, the rest was taken over at once"
	default:
		return "what it had not delivered by second " + from + ", the last, is missing"
	}
}

// significant formats a number for people: as an integer from 1000 up, otherwise with up to three significant digits.
func significant(v float64) string {
	if math.Abs(v) >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
