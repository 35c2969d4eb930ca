package judge

import (
	"slices"
	"time"

	"github.com/spate-load/spate/e2e/torture/script"
)

// Allowed differences between a client's times and the server's.
const (
	// tooSoon is how much shorter than the server's own a time may be: both are timestamps of one machine.
	tooSoon = time.Millisecond
	// usually is how much longer than the server's own a time may be, for the fastest twentieth of the requests: the
	// way through a link and back, on a busy machine.
	usually = 15 * time.Millisecond
	// apart is how far the stage's start by the wall clock may be from its start by its requests, besides what the
	// result says of the agents' clocks.
	apart = 100 * time.Millisecond
)

// judgeTimes compares the times in the rows with the server's.
func (s *stage) judgeTimes() {
	var first, last, begun []time.Duration
	for _, r := range s.rows {
		served := s.served[r.ID()]
		if len(served) != 1 || !served[0].Answered || !r.Completed() || !r.whole() {
			continue
		}
		t := served[0]
		s.judgeTime(r, t)
		if s.slowTarget(t) == 0 {
			begun = append(begun, t.Arrived.Sub(s.in(r.StartNs)))
			first = append(first, time.Duration(*r.FirstTokenNs-r.StartNs)-t.FirstToken.Sub(t.Arrived))
			last = append(last, time.Duration(*r.LastTokenNs-r.StartNs)-t.LastToken.Sub(t.Arrived))
		}
	}
	if q, most := best(begun), apart+s.clockDoubt(""); len(begun) > 0 && (q < -most || q > most) {
		s.wrong("stage %d: its requests reached the server %v after it started them", s.Index, q)
	}
	if q := best(first); q > usually {
		s.wrong("stage %d: times to the first token are longer than the server's by %v", s.Index, q)
	}
	if q := best(last); q > usually {
		s.wrong("stage %d: times to the last token are longer than the server's by %v", s.Index, q)
	}
}

// clockDoubt returns how far an agent's clock may be off, by the result. Behind a link that delays one way more than
// the other, it is off by up to half of the difference, and the result must say so. "": the most of all agents.
func (s *stage) clockDoubt(agent string) (most time.Duration) {
	for _, a := range s.Agents {
		if (agent == "" || a.Name == agent) && a.ClockUncertaintyMS != nil {
			most = max(most, time.Duration(*a.ClockUncertaintyMS*float64(time.Millisecond)))
		}
	}
	return most
}

// judgeTime compares one request's times with the server's.
func (s *stage) judgeTime(r *Row, t Served) {
	first, last := time.Duration(*r.FirstTokenNs-r.StartNs), time.Duration(*r.LastTokenNs-r.StartNs)
	if first < t.FirstToken.Sub(t.Arrived)-tooSoon || last < t.LastToken.Sub(t.Arrived)-tooSoon {
		s.wrong("stage %d request %d had its tokens after %v and %v, the server sent them after %v and %v", r.Stage,
			r.Index, first, last, t.FirstToken.Sub(t.Arrived),
			t.LastToken.Sub(t.Arrived))
	}
	if *r.OutputTokens != t.Outputs || *r.InputTokens != t.InputTokens {
		s.wrong("stage %d request %d has %d and %d tokens, the server counted %d and %d", r.Stage, r.Index,
			*r.InputTokens, *r.OutputTokens, t.InputTokens, t.Outputs)
	}
	if s.frozen(r.Agent, s.in(r.EndNs)) {
		return
	}
	slack := 2*late + 2*s.slowTarget(t)
	if over := last - t.LastToken.Sub(t.Arrived); over > slack {
		s.wrong("stage %d request %d had its last token %v later than the server sent it", r.Stage, r.Index, over)
	}
	doubt := s.clockDoubt(r.Agent)
	if off := t.Arrived.Sub(s.in(r.StartNs)); off < -apart-doubt || off > slack+doubt {
		s.wrong("stage %d request %d reached the server %v after its start", r.Stage, r.Index, off)
	}
}

// slowTarget returns how much longer than usual the way to the target and back took while a request was in flight.
func (j *judge) slowTarget(t Served) (d time.Duration) {
	for _, f := range j.Notes.Struck {
		if f.Kind == script.SlowTarget && f.From < t.Ended.Add(late) && t.Arrived < f.To.Add(late) {
			d += f.Delay
		}
	}
	return d
}

// best returns the time that a twentieth of the times do not exceed, or 0 if there are none.
func best(times []time.Duration) time.Duration {
	if len(times) == 0 {
		return 0
	}
	slices.Sort(times)
	return times[len(times)/20]
}
