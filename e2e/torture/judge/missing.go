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

// judgeTwice reports requests that were sent twice: arrivals of an open loop, and any request of a complete stage. An
// agent that takes over a part must know that no other agent sends it.
func (s *stage) judgeTwice() {
	for id, all := range s.served {
		if id.Stage == s.Index && len(all) > 1 && (s.open() || s.Complete) {
			s.wrong("stage %d request %d was sent %d times, the last time %v after the start", id.Stage, id.Index,
				len(all), all[len(all)-1].Arrived.Sub(s.start))
		}
	}
}

// judgeMissing judges each request that has no row, of those that the script asks for or the server received. A
// complete stage must not have any. In an incomplete stage each must lie where the result says that something is
// missing.
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
	s.judgeNeverSent()
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

// judgeOverdue checks that the result counts the requests that agents did not send because they stood still, or because
// their lease had ended. If more than one agent may have had a request, some assignment of the requests to the agents
// must agree with what these are said not to have sent: by Hall's theorem there is one unless the requests that only
// some of the agents may have had are more than these agents' sum.
func (s *stage) judgeOverdue() {
	most, names, counted, told := 0, "", 0, 0
	for set := agentSet(1); set < 1<<len(s.Agents); set++ {
		n := 0
		for _, may := range s.overdue {
			if may&^set == 0 {
				n++
			}
		}
		if of, said := s.neverSentBy(set); n-said > most {
			most, names, counted, told = n-said, of, n, said
		}
	}
	if most > 0 {
		s.Lost += counted
		s.wrong("stage %d: agent %s stood still and did not send %d requests, and is said not to have sent %d",
			s.Index, names, counted, told)
	}
}

// agentSet is a set of a stage's agents: bit i is the agent in place i of the result.
type agentSet uint

// neverSentBy returns the names of a set's agents, and how many requests the result says that they did not send.
func (s *stage) neverSentBy(set agentSet) (names string, n int) {
	var of []string
	for i, a := range s.Agents {
		if set&(1<<i) == 0 {
			continue
		}
		if of = append(of, a.Name); a.NeverSent != nil {
			n += int(*a.NeverSent)
		}
	}
	return strings.Join(of, ", "), n
}

// judgeNeverSent checks that an agent that was lost is said not to have sent exactly those of its requests that the
// server did not receive. It is known which these are if arrivals are constant and none changed hands.
func (s *stage) judgeNeverSent() {
	n, _ := s.asked()
	changed := slices.ContainsFunc(s.Agents, func(a Agent) bool {
		return a.JoinedS != nil || a.Loss != nil && a.Loss.TakenOver
	})
	if s.load.Arrival != "constant" || s.Outcome != "done" || changed {
		return
	}
	for _, a := range s.Agents {
		if a.Loss == nil || a.NeverSent == nil {
			continue
		}
		lacks := 0
		for i := uint64(s.load.Warmup); i < n; i++ {
			if owner, _ := s.ownerOf(i); owner == a.Name && len(s.served[ID{s.Index, i}]) == 0 {
				lacks++
			}
		}
		if lacks != int(*a.NeverSent) {
			s.wrong("stage %d: the server did not receive %d requests of agent %s, which is said not to have sent %d",
				s.Index, lacks, a.Name, *a.NeverSent)
		}
	}
}

// lacking returns the requests without a row. If the number of requests is not known, those of an open loop end with
// the last one that the server received or that has a row.
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

// unexcused returns why the result does not name a missing request as missing, or "" if it does.
func (s *stage) unexcused(id ID) (why string) {
	why = "no agent of which something is missing had it"
	_, known := s.ownerOf(id.Index)
	overdue := agentSet(0)
	for _, name := range s.mayHaveHad(id.Index) {
		for i, a := range s.Agents {
			if a.Name == name && s.stoodStill(id, a) {
				overdue |= 1 << i
			} else if a.Name == name {
				if why = s.outside(id, a); why == "" {
					return ""
				}
			}
		}
		if overdue != 0 && known {
			break // it had not changed hands yet
		}
	}
	if overdue == 0 {
		return why
	}
	s.overdue = append(s.overdue, overdue)
	return ""
}

// mayHaveHad returns the agents that may have had a request: its owner, and those that may have taken over its part.
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

// undelivered is how long before a fault an agent may hold data that it has not delivered yet.
const undelivered = 3 * time.Second

// blurred returns how far outside its seconds missing data may lie: answers take a while, and count when they end.
func (s *stage) blurred() time.Duration {
	blur := time.Second + late + time.Duration(s.Script.OutputTokens+2)*s.Script.Step
	for _, f := range s.Script.Faults {
		if f.Kind == script.SlowTarget {
			blur += 2 * (f.Delay + f.Jitter)
		}
	}
	return blur
}

// outside returns why what an agent lacks does not include a request, or "" if it does.
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

// names reports whether the stage's missing parts name an agent. A stage that never started has no other part than the
// reason, which names the agent because of which.
func (s *stage) names(agent string) bool {
	return slices.ContainsFunc(s.Missing, func(words string) bool {
		return strings.HasPrefix(strings.TrimPrefix(words, "the stage never started: "), "agent "+agent+" ")
	})
}

// when returns the time, from the stage's start, in which a request was in flight, or at which it was due. It is not
// known for requests of a closed loop that were not sent.
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

// due returns when an arrival is due. A Poisson arrival is due between its neighbours that have a row.
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

// outsideLoss returns why a request was not lost with an agent: it ended before the loss, or it started or was due
// after others had taken over the part. "": it may have been lost.
func (s *stage) outsideLoss(id ID, a Agent) string {
	from, to, known := s.when(id)
	if !known {
		return "" // judgeUnbegun limits how many of these there may be
	}
	lost := seconds(a.Loss.FromS)
	if to+s.blurred() < lost {
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

// stoodStill reports whether an agent may have had a request that was due before what the result says was lost with it,
// in the seconds in which it sent nothing by the result.
func (s *stage) stoodStill(id ID, a Agent) bool {
	_, to, known := s.when(id)
	return known && len(s.served[id]) == 0 && a.Loss != nil && a.Loss.UnsentFromS != nil &&
		to >= seconds(*a.Loss.UnsentFromS) && to+s.blurred() < seconds(a.Loss.FromS)
}

// beforeFault returns why a fault of a failed run cannot have cost an agent a request, or "" if it can.
func (s *stage) beforeFault(id ID, agent string) string {
	_, to, known := s.when(id)
	if hurt := s.hurt(agent); known && s.start.Add(to+undelivered) < hurt {
		return fmt.Sprintf("it ended or was due %v after the start, long before any fault of agent %s", to, agent)
	}
	return ""
}

// beforeEnd returns why a request that was never sent was due before the stage ended early, or "" if it was not. Agents
// that are named as missing something may have been cut off, and have heard of the end later.
func (s *stage) beforeEnd(id ID) string {
	last := time.Duration(0)
	for _, r := range s.rows {
		if !s.names(r.Agent) {
			last = max(last, time.Duration(r.StartNs))
		}
	}
	if from, to, known := s.when(id); known && to+late < last {
		return fmt.Sprintf("it was due %v after the start, was not sent, and the stage continued to %v", from, last)
	}
	return ""
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// judgeAgents judges what the result says agents lack: it must be in words, within the time of the faults that may have
// caused it, and no more than the agent's part.
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
			s.wrong("stage %d: agent %s failed (%s), the run continued, and what was lost is not reported", s.Index,
				a.Name, *a.Failure)
		}
	}
	if !some && !s.Complete {
		s.wrong("stage %d is not complete, and names no agent: %q", s.Index, s.Missing)
	}
}

// judgeWords judges the words for what is missing: the run must repeat them, and only a full disk may leave a stage
// without an end.
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
		!slices.ContainsFunc(s.Agents, func(a Agent) bool { return a.Loss != nil || s.ranOut(a) }) {
		s.wrong("stage %d failed, and the run continued", s.Index)
	}
}

// ranOut reports whether an agent ended its load itself at the end of its lease, which a fault explains. Then the stage
// fails, and the run continues with the next one.
func (s *stage) ranOut(a Agent) bool {
	lease := s.Script.LeaseOf()
	return a.Failure != nil && strings.HasSuffix(*a.Failure, fmt.Sprintf("longer than the lease of %v", lease)) &&
		s.Notes.End.Sub(s.hurt(a.Name)) > lease
}

// judgeLoss judges what the result says was lost with an agent.
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
	if len(s.partsOf(a.Name)) == 1 { // otherwise another process with the same name may have continued
		s.judgeRowsOfLoss(a)
		s.judgeIdle(a)
	}
}

// judgeUnsent judges what the result says an agent did not send before the seconds that are missing entirely. An agent
// that was cut off sends until its lease has ended, one that stood still only until then.
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

// judgeIdle checks that the result names the seconds in which an agent of a closed loop was lost but still delivered
// what it had drained: a slot was free for the whole second, the load's time was not over, and nothing started.
func (s *stage) judgeIdle(a Agent) {
	if s.open() || s.load.Requests > 0 {
		return
	}
	lastStart, free := int64(-1), int64(math.MaxInt64)
	for _, r := range s.rows {
		if r.Agent == a.Name {
			lastStart = max(lastStart, r.StartNs)
		}
	}
	for _, r := range s.rows {
		if r.Agent == a.Name && r.EndNs >= lastStart {
			free = min(free, r.EndNs)
		}
	}
	named := a.Loss.FromS
	if from := a.Loss.UnsentFromS; from != nil {
		named = *from
	}
	if idle := min(seconds(named), s.load.For) - time.Duration(free); idle > time.Second+late {
		s.wrong("stage %d: agent %s started nothing from %v on, and lost nothing before second %v", s.Index, a.Name,
			time.Duration(free), named)
	}
}

// sound reports whether a loss is possible: of some of the load, from a whole second on, and with an end if others took
// over the part.
func (l *Loss) sound() bool {
	return l.Share > 0 && l.Share <= 1 && l.FromS >= 0 && l.FromS == math.Trunc(l.FromS) &&
		(!l.TakenOver || l.ToS != nil)
}

// judgeRowsOfLoss reports rows of what the result says is missing.
func (s *stage) judgeRowsOfLoss(a Agent) {
	for _, r := range s.rows {
		if r.Agent == a.Name && float64(r.EndNs) >= (a.Loss.FromS+1)*1e9 {
			s.wrong("stage %d: all of agent %s is said to be missing from second %v on, and request %d ended at %v",
				s.Index, a.Name, a.Loss.FromS, r.Index, time.Duration(r.EndNs))
			return
		}
	}
}

// judgeLossEnd judges the end of a loss: where others took over the part, or else the end of the stage.
func (s *stage) judgeLossEnd(a Agent) {
	l := a.Loss
	if l.ToS == nil {
		// No agent told when the stage ended, or each agent's part ends with its own requests. Then everything is
		// missing, and the result must say so.
		all := slices.ContainsFunc(s.Missing, func(w string) bool {
			return strings.HasPrefix(w, "agent "+a.Name+" ") && strings.Contains(w, "all is missing from second")
		})
		if s.Outcome == "done" && (!all || !s.endsByRequests() && len(s.steadfast()) > 0) {
			s.wrong("stage %d: agent %s: it is not said to which second it is missing", s.Index, a.Name)
		}
		return
	}
	if s.endsByRequests() && !l.TakenOver {
		s.wrong("stage %d: agent %s is missing to second %v, and its part ends with its own requests", s.Index, a.Name, *l.ToS)
	}
	last := 0.0
	for _, r := range s.steadfast() {
		last = max(last, float64(r.EndNs)/1e9)
	}
	if to := max(math.Ceil(last), l.FromS); !l.TakenOver && last > 0 && *l.ToS != to {
		s.wrong("stage %d: agent %s is missing to second %v, and the stage continued to %v and no agent took over its part", s.Index, a.Name, *l.ToS, last)
	}
	if l.TakenOver && s.Script.Policy != "reassign" {
		s.wrong("stage %d: agent %s was taken over under %s", s.Index, a.Name, s.Script.Policy)
	}
}

// endsByRequests reports whether the stage is a closed loop that ends by its requests.
func (s *stage) endsByRequests() bool { return !s.open() && s.load.Requests > 0 }

// first reports whether an agent had exactly its own part when it was lost: no other agent was lost, and none joined.
func (s *stage) first(a Agent) bool {
	return !slices.ContainsFunc(s.Agents, func(b Agent) bool {
		return b.JoinedS != nil || b.Name != a.Name &&
			b.Loss != nil
	})
}

// shareOf returns an agent's share of the load by the script.
func (s *stage) shareOf(agent string) float64 {
	all := 0
	shares := s.shares
	for _, w := range shares {
		all += w
	}
	return float64(shares[s.placeOf(agent)]) / float64(all)
}

// judgeShares checks that no more Poisson arrivals are missing than the part of the agents that lost something. The
// owner of a single arrival is not known.
func (s *stage) judgeShares(lacking []uint64) {
	if !s.open() || s.load.Arrival == "constant" || s.Outcome != "done" {
		return
	}
	share, from, to := 0.0, math.Inf(1), 0.0
	for _, a := range s.Agents {
		if a.Loss == nil {
			continue
		}
		share, from = share+a.Loss.Share, min(from, a.Loss.FromS)
		if a.Loss.ToS != nil {
			to = max(to, *a.Loss.ToS)
		} else { // no agent had its part up to the end: all of the rest is missing
			to = max(to, s.load.For.Seconds(), float64(s.load.Warmup+s.load.Requests)/float64(s.load.Rate))
		}
	}
	n := float64(s.load.Rate) * (to - from + s.blurred().Seconds())
	share = min(share, 1)
	lacks := len(lacking) - len(s.overdue) // these were judged already
	if most := n*share + sigmas*math.Sqrt(n*share*(1-share)) + sigmas; float64(lacks) > most {
		s.Lost += lacks
		s.wrong("stage %d lacks %d requests, and what was lost accounts for %.0f at most", s.Index, lacks, most)
	}
}

// judgeUnbegun reports requests of a closed loop that were not started, although the result says that everything lost
// was taken over.
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
		s.wrong("stage %d: %d requests were started by no agent, though all that was lost was taken over", s.Index, unbegun)
	}
}

// judgeUnbegunShare checks that requests that were not started belonged to lost agents.
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
		s.wrong("stage %d: %d requests were started by no agent, and those who were lost owed %d", s.Index, unbegun, most)
	}
}

// unbegun counts the requests that the server never received.
func (s *stage) unbegun(lacking []uint64) (n int) {
	for _, i := range lacking {
		if len(s.served[ID{s.Index, i}]) == 0 {
			n++
		}
	}
	return n
}
