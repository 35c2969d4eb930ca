package socket

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
)

// arrivalOf is one segment as a network delivers it, and whether the ring had room for it.
type arrivalOf struct {
	from, to int
	noted    bool
}

// However segments are cut, reordered and repeated, and wherever reads end, each byte gets the time at which it became
// readable. Times may be those of reads after the ring has lost a segment, until everything that has arrived is read.
func TestTimesOfBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.OneOf(rapid.Uint32(), rapid.Uint32Min(math.MaxUint32-300)).Draw(t, "begin")
		f := new(flow)
		f.add(kernel.Segment{Seq: begin - 1, SYN: true})
		var readable []clock.Instant // by byte: when all bytes up to it had arrived
		var arrived [1000]bool
		read, last, lost := 0, 0, false
		now := clock.Instant(1e9)
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			now += clock.Instant(rapid.IntRange(1, 1000).Draw(t, "later"))
			if rapid.IntRange(0, 3).Draw(t, "event") > 0 {
				a := drawArrival(t, len(readable))
				if a.noted {
					f.add(kernel.Segment{At: now, Seq: begin + uint32(a.from), Length: uint32(a.to - a.from)})
				}
				last, lost = max(last, a.to), lost || !a.noted
				for i := a.from; i < a.to; i++ {
					arrived[i] = true
				}
				for len(readable) < len(arrived) && arrived[len(readable)] {
					readable = append(readable, now)
				}
				continue
			}
			n := rapid.IntRange(0, len(readable)-read).Draw(t, "read")
			if n == 0 {
				continue
			}
			by := Reading{At: now, Seen: now}
			for _, p := range f.take(n, by, false, nil) {
				for range p.bytes {
					if !lost && (p.by.At != readable[read] || !p.by.Packet) {
						t.Fatalf("byte %d has time %d, became readable at %d", read, p.by.At, readable[read])
					}
					read++
				}
			}
			lost = lost && read < last
		}
	})
}

// drawArrival draws a segment near the first byte that is missing, so that it often repeats others or leaves a gap.
func drawArrival(t *rapid.T, next int) arrivalOf {
	from := max(0, next+rapid.IntRange(-20, 20).Draw(t, "from"))
	if rapid.Bool().Draw(t, "in order") {
		from = next
	}
	from = min(from, 950)
	return arrivalOf{from, from + rapid.IntRange(1, 40).Draw(t, "length"), rapid.IntRange(0, 9).Draw(t, "noted") > 0}
}

// A read whose timestamp is later than its segments are noted has bytes that came again: the kernel had dropped them.
func TestSegmentsThatWereDropped(t *testing.T) {
	for late, packet := range map[time.Duration]bool{-time.Second: true, stampMargin: true, stampMargin + 1: false} {
		f := new(flow)
		f.add(kernel.Segment{Seq: 7, SYN: true})
		f.add(kernel.Segment{Seq: 8, Length: 10, At: 1e9})
		f.add(kernel.Segment{Seq: 18, Length: 10, At: 2e9})
		by := Reading{At: clock.Instant(2e9).Add(late), Seen: 9e9, Stamped: true}
		want := []piece{{20, by}}
		if packet {
			one := Reading{At: 1e9, Seen: 9e9, Stamped: true, Packet: true}
			two := one
			two.At = 2e9
			want = []piece{{10, one}, {10, two}}
		}
		if got := f.take(20, by, true, nil); !slices.Equal(got, want) {
			t.Errorf("%v later: %+v, want %+v", late, got, want)
		}
	}
}

// Segments of a connection whose first packet was not noted have no offset.
func TestFlowWithoutBeginning(t *testing.T) {
	f := new(flow)
	f.add(kernel.Segment{Seq: 8, Length: 10, At: 1e9})
	by := Reading{At: 2e9, Seen: 3e9, Stamped: true}
	if p := f.take(10, by, true, nil); len(p) != 1 || p[0] != (piece{10, by}) {
		t.Errorf("%+v", p)
	}
}
