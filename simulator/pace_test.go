package simulator

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
)

// paced is a request of the oracle.
type paced struct {
	arrives, leaves clock.Instant
	output          int
}

// due returns the instants of the request's tokens: all that a pace promises.
func (r *paced) due(p Pace) []clock.Instant {
	at := r.arrives.Add(p.FirstToken)
	if p.Ticks {
		for tick := clock.Instant(0); ; tick = tick.Add(p.BetweenTokens) {
			if tick >= at && tick > r.arrives {
				at = tick
				break
			}
		}
	}
	var all []clock.Instant
	for range r.output {
		if at > r.leaves {
			break
		}
		all = append(all, at)
		at = at.Add(p.BetweenTokens)
	}
	return all
}

func TestMetronomeAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Pace{
			FirstToken:    time.Duration(rapid.IntRange(0, 30).Draw(t, "first")),
			BetweenTokens: time.Duration(rapid.IntRange(1, 20).Draw(t, "between")),
			Ticks:         rapid.Bool().Draw(t, "ticks"),
		}
		requests := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *paced {
			arrives := rapid.IntRange(1, 100).Draw(t, "arrives")
			leaves := arrives + rapid.IntRange(1, 200).Draw(t, "stays")
			return &paced{clock.Instant(arrives), clock.Instant(leaves), rapid.IntRange(1, 12).Draw(t, "output")}
		}), 1, 12).Draw(t, "requests")
		stride := clock.Instant(rapid.IntRange(1, 40).Draw(t, "stride"))

		m := newMetronome(p, 0)
		got := map[*paced][]clock.Instant{}
		of := map[*sequence]*paced{}
		seqs := map[*paced]*sequence{}
		last := clock.Instant(0)
		advance := func(to clock.Instant) {
			for _, e := range m.advance(to, nil) {
				if e.at < last || e.at > to {
					t.Fatalf("at %d, after %d, on the way to %d", e.at, last, to)
				}
				last = e.at
				got[of[e.seq]] = append(got[of[e.seq]], e.at)
			}
		}
		slices.SortFunc(requests, func(a, b *paced) int { return cmp.Compare(a.arrives, b.arrives) })
		for now := clock.Instant(1); now <= 500; now++ {
			for _, r := range requests {
				if r.leaves == now { // after the tokens of this instant
					advance(now)
					m.cancel(seqs[r])
					m.cancel(seqs[r])
				}
			}
			for _, r := range requests {
				if r.arrives == now {
					advance(now)
					s := &sequence{output: r.output}
					of[s], seqs[r] = r, s
					m.add(s)
				}
			}
			if now%stride == 0 {
				advance(now)
			}
		}
		for i, r := range requests {
			if want := r.due(p); !slices.Equal(got[r], want) {
				t.Fatalf("request %d %+v: tokens at %v, want %v", i, *r, got[r], want)
			}
		}
		if _, ok := m.next(); ok || m.running() != 0 || m.waiting() != 0 {
			t.Fatalf("in the end %d run and %d wait", m.running(), m.waiting())
		}
	})
}

// A steady server sends no token before its time, with or without ticks.
func TestPaceServes(t *testing.T) {
	for _, ticks := range []bool{false, true} {
		config := Default()
		config.Pace = Pace{FirstToken: 5 * time.Millisecond, BetweenTokens: 2 * time.Millisecond, Ticks: ticks}
		config.Truth = Truth{Keep: true, Tokens: true}
		p := start(t, config)
		p.get(completionsPath, "", fourTokens)
		p.stop()
		r := p.Records()[0]
		if len(r.Tokens) != 4 {
			t.Fatalf("recorded %+v", r)
		}
		for i, at := range r.Tokens {
			if early := r.Received.Add(5*time.Millisecond + time.Duration(i)*2*time.Millisecond).Sub(at); early > 0 {
				t.Errorf("ticks %v: token %d came %v early", ticks, i, early)
			}
		}
	}
}
