package torture

import (
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate"
)

// judgeNamed says where a result that is not complete does not say what is missing: who has lost something, and from which second on. All
// that is missing must lie there.
func (m *missing) judgeNamed() {
	if len(m.stage.Missing) == 0 {
		m.wrong("stage %d is not complete, and does not say why", m.stage.Index)
	}
	for i, a := range m.stage.Agents {
		m.judgeAgent(i, a)
	}
	for _, id := range m.lacking() {
		m.judgeLacking(id)
	}
	m.judgeUnbegun()
}

// judgeAgent looks at what is said about an agent that is missing something.
func (m *missing) judgeAgent(place int, a aggregate.AgentResult) {
	if a.Loss == nil && a.Failure == nil {
		return
	}
	words := strings.Join(m.stage.Missing, "\n")
	if !strings.Contains(words, a.Name) {
		m.wrong("stage %d: agent %s is missing something, and what is missing does not name it: %s", m.stage.Index, a.Name, words)
	}
	if l := a.Loss; l != nil && l.ToS == nil && m.rec.GetEnded() && !strings.Contains(words, "all is missing from second") {
		m.wrong("stage %d: agent %s: it is not said to which second it is missing", m.stage.Index, a.Name)
	}
	if name := m.rec.GetAgents()[placesOf(m.rec)[place]].GetAgent().GetName(); name != a.Name {
		m.wrong("stage %d: agent %d is %s in the result and %s in the ledger", m.stage.Index, place, a.Name, name)
	}
}

// lacking are the requests that the plan asked for, or the server had, and the result lacks.
func (m *missing) lacking() []ID {
	var out []ID
	seen := map[ID]bool{}
	add := func(id ID) {
		if !seen[id] && len(m.rows[id]) == 0 {
			seen[id] = true
			out = append(out, id)
		}
	}
	for i := range m.schedule.asked {
		add(ID{m.stage.Index, i})
	}
	for id := range m.served {
		if id.Stage == m.stage.Index {
			add(id)
		}
	}
	return out
}

// blurred is how far from the borders of its seconds what is missing may lie: answers take a while, and count when they end.
func (m *missing) blurred() time.Duration {
	blur := time.Second + late + time.Duration(m.Script.OutputTokens+2)*m.Script.Step
	for _, f := range m.Script.Faults {
		if f.Kind == SlowTarget {
			blur += 2 * (f.Delay + f.Jitter)
		}
	}
	return blur
}

// judgeLacking looks whether a request that the result lacks is one of those that it says are missing.
func (m *missing) judgeLacking(id ID) {
	if why := m.unnamed(id); why != "" {
		m.Lost++
		m.wrong("stage %d lacks request %d: %s", id.Stage, id.Index, why)
		return
	}
	m.Named++
}

// unnamed says why a request that is missing is not one of those that are said to be. Empty: it is.
func (m *missing) unnamed(id ID) string {
	owners := m.schedule.ownersOf(m.rec, id.Index)
	why := "no agent has it"
	for _, i := range owners {
		a := m.resultOf(i)
		if why = m.excused(id, a); why == "" {
			return ""
		}
	}
	return why
}

// resultOf is an agent of the record in the result, which leaves observers out.
func (m *missing) resultOf(inRecord int) aggregate.AgentResult {
	for rank, i := range placesOf(m.rec) {
		if i == inRecord {
			return m.stage.Agents[rank]
		}
	}
	return aggregate.AgentResult{}
}

// excused says why an agent's losses do not cover a request. Empty: they do.
func (m *missing) excused(id ID, a aggregate.AgentResult) string {
	switch {
	case a.Loss != nil:
		return m.outside(id, a)
	case a.Failure != nil, !m.rec.GetEnded():
		return ""
	case (m.rec.GetFailure() != "" || m.rec.GetStopped()) && len(m.served[id]) == 0:
		return "" // the stage ended before its time, which is said
	default:
		return "it is agent " + a.Name + "'s, of whom nothing is said to be missing"
	}
}

// outside says why a request that is missing is outside of the seconds that an agent has lost. Empty: it is not.
func (m *missing) outside(id ID, a aggregate.AgentResult) string {
	from := m.start.Add(time.Duration(a.Loss.FromS * float64(time.Second)))
	if served := m.served[id]; len(served) > 0 {
		if served[0].Answered && served[0].Ended.Add(m.blurred()) < from {
			return "agent " + a.Name + " had its answer in second " + served[0].Ended.Sub(m.start).String() + ", before what is said to be missing"
		}
		return ""
	}
	due, known := m.schedule.asked[id.Index]
	switch {
	case !m.schedule.open || !known:
	case a.Loss.TakenOver && due.Seconds() >= *a.Loss.ToS:
		return "it is due after agent " + a.Name + "'s part was taken over"
	case !m.Frozen[a.Name] && m.start.Add(due+m.blurred()) < from:
		return "it was due before what is said to be missing of agent " + a.Name + ", and was not sent"
	}
	return ""
}

// judgeUnbegun says where requests of a closed loop were neither begun nor taken over, though all that was not begun is said to be taken over.
func (m *missing) judgeUnbegun() {
	if m.schedule.open || !m.schedule.known || m.rec.GetFailure() != "" || !m.rec.GetEnded() || m.rec.GetStopped() {
		return
	}
	if slices.ContainsFunc(m.stage.Agents, func(a aggregate.AgentResult) bool { return a.Failure != nil && (a.Loss == nil || !a.Loss.TakenOver) }) {
		return // what it has not begun is missing
	}
	unbegun := 0
	for _, id := range m.lacking() {
		if len(m.served[id]) == 0 {
			unbegun++
		}
	}
	// Each slot may have been about to send when its process was killed.
	if most := int(m.rec.GetStage().GetLoad().GetConcurrency()); unbegun > most {
		m.Lost += unbegun
		m.wrong("stage %d: %d requests were begun by nobody, though all that was lost was taken over", m.stage.Index, unbegun)
	}
}
