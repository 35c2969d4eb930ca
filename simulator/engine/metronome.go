package engine

import (
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
)

// metronome is the model of a pace. Like engine it is pure, and it has the same methods.
//
// The next token of each sequence is due one BetweenTokens after the last one. This time is the same for all, so the
// sequence that was served first is due first again. Two queues, one of sequences that wait for their first token and
// one of those that have it, are therefore already in order of time, and nothing has to be sorted. With ticks, first
// tokens are due at ticks, and so are all others.
type metronome struct {
	pace   config.Pace
	now    clock.Instant
	first  dueQueue // waiting for the first token
	later  dueQueue // waiting for a later token
	origin clock.Instant
}

// dueQueue is a queue of sequences ordered by the instant of their next token.
type dueQueue struct{ queue }

// at returns the instant of the front, or false if the queue is empty.
func (d *dueQueue) at() (clock.Instant, bool) {
	if d.live == 0 {
		return 0, false
	}
	return d.front().ready, true
}

func newMetronome(p config.Pace, now clock.Instant) *metronome {
	return &metronome{pace: p, now: now, origin: now}
}

// Add starts a sequence at the current instant.
func (m *metronome) Add(s *Sequence) {
	s.ready, s.Queued, s.Began = m.now.Add(m.pace.FirstToken), m.now, m.now
	if m.pace.Ticks {
		s.ready = m.tick(max(s.ready, m.now+1)) // a tick at this very instant may be over
	}
	m.first.push(s, waiting)
}

// tick returns the first tick at or after an instant.
func (m *metronome) tick(at clock.Instant) clock.Instant {
	since, every := at.Sub(m.origin), m.pace.BetweenTokens
	return m.origin.Add(since + every - 1 - (since+every-1)%every)
}

// Cancel removes a sequence from wherever it is. Cancelling a departed sequence does nothing.
func (m *metronome) Cancel(s *Sequence) {
	switch s.phase {
	case waiting:
		m.first.drop(s)
	case running:
		m.later.drop(s)
	default:
	}
}

func (m *metronome) Running() int { return m.later.live }

func (m *metronome) Waiting() int { return m.first.live }

// Next returns the instant of the next token, or false if none is due.
func (m *metronome) Next() (clock.Instant, bool) {
	at, ok := m.first.at()
	if other, found := m.later.at(); found && (!ok || other < at) {
		return other, true
	}
	return at, ok
}

// Advance moves the model to an instant and appends what it emits on the way, in order of time. An instant in the past
// changes nothing.
func (m *metronome) Advance(to clock.Instant, dst []Emission) []Emission {
	for {
		at, ok := m.Next()
		if !ok || at > to {
			m.now = max(m.now, to)
			return dst
		}
		m.now = max(m.now, at)
		dst = m.serve(at, dst)
	}
}

// serve gives the due sequence its token and moves it behind the others.
func (m *metronome) serve(at clock.Instant, dst []Emission) []Emission {
	from := &m.later
	if first, ok := m.first.at(); ok && first == at {
		from = &m.first
	}
	s := from.pop()
	dst = s.emit(at, dst)
	if s.phase != departed {
		s.ready = at.Add(m.pace.BetweenTokens)
		m.later.push(s, running)
	}
	return dst
}
