package aggregate

import (
	"cmp"
	"fmt"
	"math"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// lostPart returns in words what was lost with an agent.
func (s *Stage) lostPart(assigned *spatev1.AssignedAgent, a *agentTally) string {
	l := s.lossOf(a)
	words := fmt.Sprintf("(%s %% of the load) lost: %s", significant(100*l.Share), l.words())
	if l.UnsentFromS != nil {
		words += fmt.Sprintf("; it never sent %s, due from second %s on", a.unsent(), significant(*l.UnsentFromS))
	}
	if reason := cmp.Or(assigned.GetFailure(), a.totals.GetFailure()); reason != "" {
		words += " (" + reason + ")"
	}
	return words
}

// unsent returns in words what an agent never sent. The number is in its totals, which may be lost if the ledger is
// damaged.
func (a *agentTally) unsent() string {
	if a.totals == nil {
		return "requests"
	}
	return fmt.Sprintf("%d requests", a.totals.GetNeverSent())
}

// lossOf describes what was lost with an agent. It returns nil if the agent was not lost.
func (s *Stage) lossOf(a *agentTally) *Loss {
	if a.loss == nil {
		return nil
	}
	l := &Loss{Share: a.loss.GetShare(), FromS: float64(a.loss.GetFromWindow())}
	if a.loss.UnsentFromWindow != nil {
		from := float64(a.loss.GetUnsentFromWindow())
		l.UnsentFromS = &from
	}
	if a.loss.TakenOverNs != nil {
		taken := float64(a.loss.GetTakenOverNs()) / nanosPerSecond
		l.TakenOver, l.ToS = true, &taken
		return l
	}
	if _, end, ok := s.span(); ok {
		to := max(math.Ceil(float64(end)/nanosPerSecond), l.FromS)
		l.ToS = &to
	}
	return l
}

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
