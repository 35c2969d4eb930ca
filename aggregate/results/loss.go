package results

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

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
		text += " (" + reason + ")"
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
	case l.ToS == nil:
		return "all is missing from second " + from + " on"
	case l.TakenOver && *l.ToS > l.FromS:
		return "seconds " + from + " to " + significant(*l.ToS) + " are missing, then taken over"
	case l.TakenOver:
		return "what it had not delivered by second " + from + " is missing, the rest was taken over at once"
	case *l.ToS > l.FromS:
		return "seconds " + from + " to " + significant(*l.ToS) + ", the last, are missing"
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
