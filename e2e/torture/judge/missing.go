package judge

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// judgeTwice says where an arrival of an open loop was sent twice: who takes a part over must know that nobody else
// sends it.
func (s *stage) judgeTwice() {
	for id, all := range s.served {
		if id.Stage == s.Index && len(all) > 1 && (s.open() || s.Complete) {
			s.wrong("stage %d request %d was sent %d times, the last time %v after the start", id.Stage, id.Index,
				len(all), all[len(all)-1].Arrived.Sub(s.start))
		}
	}
}

// judgeMissing looks at each request that the script asks for, or the server had, and that has no row: of a complete
// stage there is none, of another one each must lie where the result says that something is missing.
func (s *stage) judgeMissing() {
	lacking := s.lacking()
	for _, index := range lacking {
		id := ID{s.Index, index}
		if s.Complete {
			s.Lost++
			s.wrong("stage %d is complete, and lacks request %d, which the server had %d times", s.Index, index,
				len(s.served[id]))
		} else if why := s.unexcused(id); why != "" {
			s.Lost++
			s.wrong("stage %d lacks request %d: %s", s.Index, index, why)
		} else {
			s.Named++
		}
	}
	s.judgeOverdue()
	for id, all := range s.served {
		if rows := s.judge.rows[id]; id.Stage == s.Index && s.Complete && len(rows) > 0 && all[0].Answered &&
			!rows[0].Completed() {
			s.wrong("stage %d is complete, and request %d was answered and does not count as that", id.Stage, id.Index)
		}
	}
	if !s.Complete {
		s.judgeShares(lacking)
		s.judgeUnbegun(lacking)
	}
}

// judgeOverdue looks whether those that stood still say how many requests they never sent.
func (s *stage) judgeOverdue() {
	for name, n := range s.overdue {
		said := uint64(0)
		for _, a := range s.Agents {
			if a.Name == name && a.NeverSent != nil {
				said += *a.NeverSent
			}
		}
		if uint64(n) > said {
			s.Lost += n
			s.wrong("stage %d: agent %s stood still and did not send %d requests, and is said not to have sent %d",
				s.Index, name, n, said)
		}
	}
}

// lacking are the requests without a row. Where it is not known how many there are, those up to the last one of an open
// loop that anybody heard of.
func (s *stage) lacking() (out []uint64) {
	n, known := s.asked()
	had := map[uint64]bool{}
	for id := range s.served {
		if id.Stage == s.Index {
			had[id.Index] = true
		}
	}
	for _, r := range s.rows {
		had[r.Index] = true
	}
	if !known && s.open() {
		for i := range had {
			n = max(n, i+1)
		}
	}
	for i := range n {
		had[i] = true
	}
	for _, i := range slices.Sorted(maps.Keys(had)) {
		if len(s.judge.rows[ID{s.Index, i}]) == 0 {
			out = append(out, i)
		}
	}
	return out
}

// unexcused says why a request that is missing is not one of those that are said to be. Empty: it is.
func (s *stage) unexcused(id ID) (why string) {
	why = "nobody of whom something is missing had it"
	for _, name := range s.mayHaveHad(id.Index) {
		for _, a := range s.Agents {
			if a.Name != name {
				continue
			}
			if why = s.outside(id, a); why == "" {
				return ""
			}
		}
	}
	return why
}

// mayHaveHad are the agents that may have had a request: its owner, and whoever its part went to.
func (s *stage) mayHaveHad(index uint64) (names []string) {
	owner, known := s.ownerOf(index)
	if known {
		names = append(names, owner)
	}
	for _, a := range s.Agents {
		passed := slices.ContainsFunc(s.Agents, func(b Agent) bool {
			return b.Name == owner && b.Loss != nil &&
				b.Loss.TakenOver
		})
		if joined := a.JoinedS != nil; !known || passed || joined {
			names = append(names, a.Name)
		}
	}
	return names
}

// undelivered is how long before a fault an agent may have had something that it had not handed over yet.
const undelivered = 3 * time.Second

// blurred is how far from the borders of its seconds what is missing may lie: answers take a while, and count when they
// end.
func (s *stage) blurred() time.Duration {
	blur := time.Second + late + time.Duration(s.Script.OutputTokens+2)*s.Script.Step
	for _, f := range s.Script.Faults {
		if f.Kind == script.SlowTarget {
			blur += 2 * (f.Delay + f.Jitter)
		}
	}
	return blur
}

// outside says why what is missing of an agent does not hold a request. Empty: it does.
func (s *stage) outside(id ID, a Agent) string {
	switch {
	case a.Loss != nil:
		return s.outsideLoss(id, a)
	case s.Outcome == "done":
		return "agent " + a.Name + " may have had it, of whom nothing is said to be missing"
	case s.names(a.Name):
		return s.beforeFault(id, a.Name)
	case len(s.served[id]) > 0:
		return "agent " + a.Name + " may have had it, the server did, and nothing of that agent is said to be missing"
	default:
		return s.beforeEnd(id)
	}
}

// names reports whether what is missing names an agent.
func (s *stage) names(agent string) bool {
	return slices.ContainsFunc(s.Missing,
		func(words string) bool { return strings.HasPrefix(words, "agent "+agent+" ") })
}

// when is the time from the stage's start in which a request was under way, or at which it was due. It is not known of
// requests of a closed loop that were not sent.
func (s *stage) when(id ID) (from, to time.Duration, known bool) {
	if all := s.served[id]; len(all) > 0 {
		return all[0].Arrived.Sub(s.start), all[len(all)-1].Ended.Sub(s.start), true
	}
	if !s.open() {
		return 0, 0, false
	}
	from, to = s.due(id.Index)
	return from, to, true
}

// forever is later than any run.
const forever = 24 * time.Hour

// due is when an arrival is due: Poisson arrivals between those before and behind it that have a row.
func (s *stage) due(index uint64) (from, to time.Duration) {
	if s.load.Arrival == "constant" {
		d := s.dueConstant(index)
		return d, d
	}
	to = forever
	for _, r := range s.rows {
		if at := time.Duration(r.ScheduledNs); r.Index < index {
			from = max(from, at)
		} else {
			to = min(to, at)
		}
	}
	return from, to
}

// outsideLoss says why a request was not lost with an agent: it ended before that was, or began or was due when others
// had taken the part over.
func (s *stage) outsideLoss(id ID, a Agent) string {
	from, to, known := s.when(id)
	if !known {
		return "" // how many of these there may be is looked at elsewhere
	}
	lost := seconds(a.Loss.FromS)
	if to+s.blurred() < lost {
		if from := a.Loss.UnsentFromS; from != nil && len(s.served[id]) == 0 && to >= seconds(*from) {
			s.overdue[a.Name]++ // it stood still, and had not sent this one when it was lost
			return ""
		}
		return fmt.Sprintf("it ended or was due %v after the start, and agent %s lost nothing before second %v", to,
			a.Name, a.Loss.FromS)
	}
	if a.Loss.ToS == nil {
		return ""
	}
	end := seconds(*a.Loss.ToS)
	if a.Loss.TakenOver && len(s.served[id]) == 0 && from >= end {
		return fmt.Sprintf("it was due %v after the start, when the part of agent %s had been taken over", from, a.Name)
	}
	if from > end+s.blurred() {
		return fmt.Sprintf("it began %v after the start, and what agent %s lost ends at second %v", from, a.Name,
			*a.Loss.ToS)
	}
	return ""
}

// beforeFault says why a request is not among what a fault cost an agent of a run that failed. Empty: it is.
func (s *stage) beforeFault(id ID, agent string) string {
	_, to, known := s.when(id)
	if hurt := s.hurt(agent); known && s.start.Add(to+undelivered) < hurt {
		return fmt.Sprintf("it ended or was due %v after the start, long before any fault of agent %s", to, agent)
	}
	return ""
}

// beforeEnd says why a request that was never sent should have been before the stage ended early. Empty: it should not.
func (s *stage) beforeEnd(id ID) string {
	last := time.Duration(0)
	for _, r := range s.rows {
		last = max(last, time.Duration(r.StartNs))
	}
	if from, to, known := s.when(id); known && to+late < last {
		return fmt.Sprintf("it was due %v after the start, was not sent, and the stage went on to %v", from, last)
	}
	return ""
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// judgeAgents looks at what is said to be missing of agents: it is in words, within the time of the faults that can be
// why, and no more than the agent's part.
func (s *stage) judgeAgents() {
	if !s.Complete {
		s.judgeWords()
	}
	some := false
	for _, a := range s.Agents {
		if !s.isAgent(a.Name) {
			s.wrong("stage %d has an agent %s, the script does not", s.Index, a.Name)
			continue
		}
		if a.Loss == nil && a.Failure == nil {
			some = some || s.names(a.Name)
			continue
		}
		some = true
		if s.Complete || !s.names(a.Name) {
			s.wrong("stage %d: agent %s is missing something, and what is missing does not name it: %q", s.Index,
				a.Name, s.Missing)
		}
		if a.Loss != nil {
			s.judgeLoss(a)
		} else if s.Outcome == "done" {
			s.wrong("stage %d: agent %s failed (%s), the run went on, and it is not said what was lost", s.Index,
				a.Name, *a.Failure)
		}
	}
	if !some && !s.Complete {
		s.wrong("stage %d is not complete, and names no agent: %q", s.Index, s.Missing)
	}
}

// judgeWords looks at the words for what is missing: the run repeats them, and only a full disk leaves a stage without
// an end.
func (s *stage) judgeWords() {
	for _, words := range s.Missing {
		if !slices.Contains(s.Results.Run.Missing, fmt.Sprintf("stage %d: %s", s.Index+1, words)) {
			s.wrong("stage %d lacks something that the run does not name: %s", s.Index, words)
		}
		ended := !strings.Contains(words, "did not end") && !strings.Contains(words, "never started")
		if !ended && !s.Notes.struck(script.FullDisk) &&
			(s.Outcome == "done" || strings.Contains(words, "did not end")) {
			s.wrong("stage %d has no end, and no disk was full: %s", s.Index, words)
		}
	}
	if s.Outcome == "failed" && int(s.Index) != len(s.Results.Stages)-1 &&
		!slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Loss != nil }) {
		s.wrong("stage %d failed, and the run went on", s.Index)
	}
}

// judgeLoss looks at what is said to be lost with an agent.
func (s *stage) judgeLoss(a Agent) {
	l := a.Loss
	if s.StartTime == nil || !l.sound() {
		s.wrong("stage %d: agent %s lost %+v", s.Index, a.Name, *l)
		return
	}
	if at, err := time.Parse(time.RFC3339Nano, *s.StartTime); err == nil {
		s.start = s.Notes.instantOf(at)
	}
	if hurt := s.hurt(a.Name); s.start.Add(seconds(l.FromS)+undelivered) < hurt && l.FromS > 0 ||
		hurt == math.MaxInt64 {
		s.wrong("stage %d: agent %s is said to have lost all from second %v on, long before any fault", s.Index,
			a.Name, l.FromS)
	}
	s.judgeUnsent(a)
	s.judgeLossEnd(a)
	if s.first(a) && math.Abs(l.Share-s.shareOf(a.Name)) > 1e-6 {
		s.wrong("stage %d: agent %s is said to have had %v of the load, the script gives it %v", s.Index, a.Name,
			l.Share, s.shareOf(a.Name))
	}
	if len(s.partsOf(a.Name)) == 1 { // else another process of the name may have gone on
		s.judgeRowsOfLoss(a)
	}
}

// judgeUnsent looks at what an agent is said not to have sent before the seconds that are missing as a whole: one
// that was cut off sends until its lease has ended, and one that stood still until then.
func (s *stage) judgeUnsent(a Agent) {
	from := a.Loss.UnsentFromS
	if from == nil {
		return
	}
	earliest := s.hurt(a.Name)
	if !s.frozen(a.Name, s.start.Add(seconds(a.Loss.FromS)+s.blurred())) {
		earliest = earliest.Add(s.Script.LeaseOf())
	}
	if *from < 0 || *from != math.Trunc(*from) || *from >= a.Loss.FromS ||
		s.start.Add(seconds(*from)+undelivered) < earliest {
		s.wrong("stage %d: agent %s is said not to have sent what was due from second %v on, %v before it could have failed to",
			s.Index, a.Name, *from, earliest.Sub(s.start.Add(seconds(*from))))
	}
}

// sound reports whether a loss can be one: of some of the load, from a whole second on, and to a moment if others took
// the part over.
func (l *Loss) sound() bool {
	return l.Share > 0 && l.Share <= 1 && l.FromS >= 0 && l.FromS == math.Trunc(l.FromS) &&
		(!l.TakenOver || l.ToS != nil)
}

// judgeRowsOfLoss looks whether there are rows of what is said to be missing.
func (s *stage) judgeRowsOfLoss(a Agent) {
	for _, r := range s.rows {
		if r.Agent == a.Name && float64(r.EndNs) >= (a.Loss.FromS+1)*1e9 {
			s.wrong("stage %d: all of agent %s is said to be missing from second %v on, and request %d ended at %v",
				s.Index, a.Name, a.Loss.FromS, r.Index, time.Duration(r.EndNs))
			return
		}
	}
}

// judgeLossEnd looks at where a loss ends: where others took the part over, else with the stage.
func (s *stage) judgeLossEnd(a Agent) {
	l := a.Loss
	if l.ToS == nil {
		// No agent told when the stage ended: then all is missing, and that is said.
		all := slices.ContainsFunc(s.Missing, func(w string) bool {
			return strings.HasPrefix(w, "agent "+a.Name+" ") && strings.Contains(w, "all is missing from second")
		})
		if s.Outcome == "done" && (!all || len(s.steadfast()) > 0) {
			s.wrong("stage %d: agent %s: it is not said to which second it is missing", s.Index, a.Name)
		}
		return
	}
	last := 0.0
	for _, r := range s.steadfast() {
		last = max(last, float64(r.EndNs)/1e9)
	}
	if to := max(math.Ceil(last), l.FromS); !l.TakenOver && last > 0 && *l.ToS != to {
		s.wrong("stage %d: agent %s is missing to second %v, and the stage went on to %v without anybody taking its part over", s.Index, a.Name, *l.ToS, last)
	}
	if l.TakenOver && s.Script.Policy != "reassign" {
		s.wrong("stage %d: agent %s was taken over under %s", s.Index, a.Name, s.Script.Policy)
	}
}

// first reports whether an agent had its own part when it was lost, no more and no less: nobody else was lost, and
// nobody joined.
func (s *stage) first(a Agent) bool {
	return !slices.ContainsFunc(s.Agents, func(b Agent) bool {
		return b.JoinedS != nil || b.Name != a.Name &&
			b.Loss != nil
	})
}

// shareOf is an agent's share of the load by the script.
func (s *stage) shareOf(agent string) float64 {
	all := 0
	shares := s.shares()
	for _, w := range shares {
		all += w
	}
	return float64(shares[s.placeOf(agent)]) / float64(all)
}

// judgeShares looks whether no more Poisson arrivals are missing than the part of the agents that lost something: whose
// an arrival was cannot be told.
func (s *stage) judgeShares(lacking []uint64) {
	if !s.open() || s.load.Arrival == "constant" || s.Outcome != "done" {
		return
	}
	share, from, to := 0.0, math.Inf(1), 0.0
	for _, a := range s.Agents {
		if a.Loss != nil && a.Loss.ToS != nil {
			share, from, to = share+a.Loss.Share, min(from, a.Loss.FromS), max(to, *a.Loss.ToS)
		}
	}
	n := float64(s.load.Rate) * (to - from + s.blurred().Seconds())
	share = min(share, 1)
	lacks := len(lacking)
	for _, overdue := range s.overdue {
		lacks -= overdue // which was looked at
	}
	if most := n*share + sigmas*math.Sqrt(n*share*(1-share)) + sigmas; float64(lacks) > most {
		s.Lost += lacks
		s.wrong("stage %d lacks %d requests, and what was lost accounts for %.0f at most", s.Index, lacks, most)
	}
}

// judgeUnbegun says where requests of a closed loop were neither begun nor taken over, though all that was not begun is
// said to be taken over.
func (s *stage) judgeUnbegun(lacking []uint64) {
	if s.open() || s.load.Requests == 0 || s.Outcome != "done" {
		return
	}
	if slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Loss != nil && !a.Loss.TakenOver }) {
		s.judgeUnbegunShare(lacking)
		return
	}
	unbegun := s.unbegun(lacking)
	// Each slot may have been about to send when its process was killed.
	if unbegun > s.load.Concurrency {
		s.Lost += unbegun
		s.wrong("stage %d: %d requests were begun by nobody, though all that was lost was taken over", s.Index, unbegun)
	}
}

// judgeUnbegunShare looks whether what was not begun was owed by those who were lost.
func (s *stage) judgeUnbegunShare(lacking []uint64) {
	n, _ := s.asked()
	owed := map[string]int{}
	for i := range n {
		if owner, known := s.ownerOf(i); known {
			owed[owner]++
		}
	}
	most := s.load.Concurrency
	for _, a := range s.Agents {
		if a.Loss != nil {
			most += owed[a.Name]
		}
	}
	if unbegun := s.unbegun(lacking); unbegun > most &&
		!slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Loss != nil && a.Loss.TakenOver }) {
		s.Lost += unbegun
		s.wrong("stage %d: %d requests were begun by nobody, and those who were lost owed %d", s.Index, unbegun, most)
	}
}

// unbegun counts those that the server never had.
func (s *stage) unbegun(lacking []uint64) (n int) {
	for _, i := range lacking {
		if len(s.served[ID{s.Index, i}]) == 0 {
			n++
		}
	}
	return n
}
