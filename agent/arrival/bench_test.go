package arrival

import (
	"fmt"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// agents returns the weights of 1,000 agents: alike, of three sizes, or all different at the longest cycle allowed.
func agents(kind string) []uint32 {
	ws := make([]uint32, 1000)
	for i := range ws {
		switch kind {
		case "equal":
			ws[i] = 4
		case "sizes":
			ws[i] = []uint32{4, 8, 16}[i%3]
		case "different":
			ws[i] = uint32(549 + i)
		}
	}
	return ws
}

// BenchmarkSplit builds the stripes of 1,000 agents.
func BenchmarkSplit(b *testing.B) {
	for _, kind := range []string{"equal", "sizes", "different"} {
		b.Run(kind, func(b *testing.B) {
			ws := agents(kind)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Split(ws); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStripe builds what one of 1,000 agents needs.
func BenchmarkStripe(b *testing.B) {
	for _, kind := range []string{"equal", "sizes", "different"} {
		b.Run(kind, func(b *testing.B) {
			ws := agents(kind)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewStripe(ws, 500); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWalk is one of 1,000 agents that goes through a stage of 10 million requests.
func BenchmarkWalk(b *testing.B) {
	const requests = 10_000_000
	s, err := NewStripe(agents("sizes"), 500)
	if err != nil {
		b.Fatal(err)
	}
	for _, process := range []string{"poisson", "constant"} {
		b.Run(fmt.Sprintf("%s-10M", process), func(b *testing.B) {
			load := &spatev1.LoadPoint{Rate: 100_000, Arrival: process, Requests: requests}
			b.ReportAllocs()
			for b.Loop() {
				o, err := NewOpen(load, 1, s)
				if err != nil {
					b.Fatal(err)
				}
				own := 0
				for _, ok := o.Next(); ok; _, ok = o.Next() {
					own++
				}
				if uint64(own) != s.Below(requests) {
					b.Fatalf("%d arrivals, want %d", own, s.Below(requests))
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/requests, "ns/request")
		})
	}
}

// BenchmarkClosed hands out requests.
func BenchmarkClosed(b *testing.B) {
	s, err := NewStripe(agents("sizes"), 500)
	if err != nil {
		b.Fatal(err)
	}
	c, err := NewClosed(&spatev1.LoadPoint{Concurrency: 100_000, Requests: 1 << 60}, 1, s)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Next(0); !ok {
			b.Fatal("nothing more to start")
		}
	}
}
