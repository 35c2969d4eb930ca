package kernel

import (
	"math/rand/v2"
	"testing"
	"time"
)

// The margin converges to what nine of ten sleeps are late by at most, from any start, and stays within its bounds.
func TestMarginLearns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name       string
		late       func() time.Duration
		least, not margin // the margin is within [least, not)
	}{
		{"never late", func() time.Duration { return 0 }, minMargin, minMargin + 1},
		{"always very late", func() time.Duration { return time.Second }, maxMargin, maxMargin + 1},
		{"evenly up to 100 us", func() time.Duration { return time.Duration(random.IntN(100_000)) }, 84_000, 96_000},
		{"40 us, now and then a second", func() time.Duration {
			if random.IntN(20) == 0 {
				return time.Second
			}
			return 40 * time.Microsecond
		}, 40_000, 48_000},
	} {
		for _, from := range []margin{minMargin, firstMargin, maxMargin} {
			m := from
			for range 5000 {
				m.learn(c.late())
				if m < minMargin || m > maxMargin {
					t.Fatalf("%s: %v", c.name, time.Duration(m))
				}
			}
			if m < c.least || m >= c.not {
				t.Errorf("%s, from %v: %v", c.name, time.Duration(from), time.Duration(m))
			}
		}
	}
}
