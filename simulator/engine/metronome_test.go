package engine

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
)

// paced is a request of the oracle.
type paced struct {
	arrives, leaves clock.Instant
	output          int
}

// due returns the instants of the request's tokens: all that a pace promises.
func (r *paced) due(p config.Pace) []clock.Instant {
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
		p := config.Pace{
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
		of := map[*Sequence]*paced{}
		seqs := map[*paced]*Sequence{}
		last := clock.Instant(0)
		advance := func(to clock.Instant) {
			for _, e := range m.Advance(to, nil) {
				if e.At < last || e.At > to {
					t.Fatalf("at %d, after %d, on the way to %d", e.At, last, to)
				}
				last = e.At
				got[of[e.Seq]] = append(got[of[e.Seq]], e.At)
			}
		}
		slices.SortFunc(requests, func(a, b *paced) int { return cmp.Compare(a.arrives, b.arrives) })
		for now := clock.Instant(1); now <= 500; now++ {
			for _, r := range requests {
				if r.leaves == now { // after the tokens of this instant
					advance(now)
					m.Cancel(seqs[r])
					m.Cancel(seqs[r])
				}
			}
			for _, r := range requests {
				if r.arrives == now {
					advance(now)
					s := &Sequence{Output: r.output}
					of[s], seqs[r] = r, s
					m.Add(s)
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
		if _, ok := m.Next(); ok || m.Running() != 0 || m.Waiting() != 0 {
			t.Fatalf("in the end %d run and %d wait", m.Running(), m.Waiting())
		}
	})
}
