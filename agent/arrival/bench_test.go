package arrival

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

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
				if _, err := split(ws); err != nil {
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
	phases := func(shape string, n uint32) []*spatev1.Phase {
		return []*spatev1.Phase{{From: 100, To: proto.Float64(200_000), Duration: durationpb.New(time.Hour), Shape: shape, Steps: n}}
	}
	for name, load := range map[string]*spatev1.LoadPoint{
		"constant":            {Rate: 100_000, Arrival: "constant"},
		"poisson":             {Rate: 100_000, Arrival: "poisson"},
		"gamma-0.25":          {Rate: 100_000, Arrival: "gamma", Burstiness: 0.25},
		"gamma-4":             {Rate: 100_000, Arrival: "gamma", Burstiness: 4},
		"poisson-linear":      {Phases: phases("linear", 0), Arrival: "poisson"},
		"poisson-exponential": {Phases: phases("exponential", 0), Arrival: "poisson"},
		"constant-steps":      {Phases: phases("steps", 100), Arrival: "constant"},
	} {
		b.Run(name+"-10M", func(b *testing.B) {
			load.Requests = requests
			b.ReportAllocs()
			for b.Loop() {
				o, err := NewOpen(load, 1, sole(s))
				if err != nil {
					b.Fatal(err)
				}
				walkAll(b, o, s.Below(requests))
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/requests, "ns/request")
		})
	}
}

// walkAll goes to the end of a schedule of so many own arrivals.
func walkAll(b *testing.B, o Open, want uint64) {
	own := uint64(0)
	for _, ok := o.Next(); ok; _, ok = o.Next() {
		own++
	}
	if own != want || o.Err() != nil {
		b.Fatalf("%d arrivals, want %d: %v", own, want, o.Err())
	}
}

// evenly is a trace of a row each millisecond.
type evenly uint64

func (e evenly) Len() uint64 { return uint64(e) }

func (e evenly) At(i uint64) (time.Duration, bool) {
	return time.Duration(i) * time.Millisecond, i < uint64(e)
}

// BenchmarkReplay is one of 1,000 agents that goes through a trace of a million rows, whose times cost nothing to look up.
func BenchmarkReplay(b *testing.B) {
	const rows = 1_000_000
	s, err := NewStripe(agents("sizes"), 500)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		o, err := NewReplay(&spatev1.LoadPoint{ReplaySpeed: 10}, evenly(rows), sole(s))
		if err != nil {
			b.Fatal(err)
		}
		walkAll(b, o, s.Below(rows))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

// BenchmarkThink draws exponential think times.
func BenchmarkThink(b *testing.B) {
	c, err := NewClosed(&spatev1.LoadPoint{
		Concurrency: 1, Requests: 1, ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(time.Second), Distribution: "exponential"},
	}, 1, sole(whole))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	index := uint64(0)
	for b.Loop() {
		c.Think(index)
		index++
	}
}

// BenchmarkClosed hands out requests.
func BenchmarkClosed(b *testing.B) {
	s, err := NewStripe(agents("sizes"), 500)
	if err != nil {
		b.Fatal(err)
	}
	c, err := NewClosed(&spatev1.LoadPoint{Concurrency: 100_000, Requests: 1 << 60}, 1, sole(s))
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
