package schedule

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sizes returns the weights of 1,000 agents of three sizes.
func sizes() []uint32 {
	ws := make([]uint32, 1000)
	for i := range ws {
		ws[i] = []uint32{4, 8, 16}[i%3]
	}
	return ws
}

// BenchmarkWalk lets one of 1,000 agents walk through a stage of 10 million requests.
func BenchmarkWalk(b *testing.B) {
	const requests = 10_000_000
	s, err := NewStripe(sizes(), 500)
	if err != nil {
		b.Fatal(err)
	}
	phases := []*spatev1.Phase{{From: 100, To: proto.Float64(200_000), Duration: durationpb.New(time.Hour)}}
	for name, load := range map[string]*spatev1.LoadPoint{
		"constant":       {Rate: 100_000, Arrival: "constant"},
		"poisson":        {Rate: 100_000, Arrival: "poisson"},
		"poisson-random": {Rate: 100_000, Arrival: "poisson", Split: "random"},
		"gamma-0.25":     {Rate: 100_000, Arrival: "gamma", Burstiness: 0.25},
		"gamma-4":        {Rate: 100_000, Arrival: "gamma", Burstiness: 4},
		"poisson-linear": {Phases: phases, Arrival: "poisson"},
	} {
		b.Run(name+"-10M", func(b *testing.B) {
			load.Requests = requests
			b.ReportAllocs()
			for b.Loop() {
				o, err := NewOpen(load, 1, sole(s))
				if err != nil {
					b.Fatal(err)
				}
				want := s.Below(requests)
				if load.Split == "random" {
					want = 0
				}
				walkAll(b, o, want)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/requests, "ns/request")
		})
	}
}

// walkAll walks to the end of a schedule, and checks the number of own arrivals unless want is 0.
func walkAll(b *testing.B, o *Open, want uint64) {
	own := uint64(0)
	for _, ok := o.Next(); ok; _, ok = o.Next() {
		own++
	}
	if own != want && want != 0 || o.Err() != nil {
		b.Fatalf("%d arrivals, want %d: %v", own, want, o.Err())
	}
}

// evenly is a trace with a row each millisecond.
type evenly uint64

func (e evenly) Len() uint64 { return uint64(e) }

func (e evenly) At(i uint64) (time.Duration, bool) {
	return time.Duration(i) * time.Millisecond, i < uint64(e)
}

// BenchmarkReplay lets one of 1,000 agents walk through a trace of a million rows. Reading the rows' times costs
// nothing.
func BenchmarkReplay(b *testing.B) {
	const rows = 1_000_000
	s, err := NewStripe(sizes(), 500)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		o, err := NewReplay(&spatev1.LoadPoint{ReplaySpeed: 10}, 1, evenly(rows), sole(s))
		if err != nil {
			b.Fatal(err)
		}
		walkAll(b, o, s.Below(rows))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
}

// lossesAndJoins returns the stripe of one of 1,000 agents. Some agents are lost and taken over by all others, and some
// agents have joined.
func lossesAndJoins(rank uint32, losses, joins int) *spatev1.Stripe {
	m := &spatev1.Stripe{Weights: sizes(), Rank: rank}
	for i := range losses {
		rest := sizes()
		clear(rest[:i+1])
		m.Handovers = append(m.Handovers, &spatev1.Handover{FromRank: uint32(i), Weights: rest, FromNs: int64(i)})
	}
	for range joins {
		ranks := len(m.Weights) + len(m.Handovers)/1000
		for p := losses; p < ranks; p++ {
			part := make([]uint32, ranks+1)
			part[p], part[ranks] = 10, 1
			m.Handovers = append(m.Handovers, &spatev1.Handover{FromRank: uint32(p), Weights: part,
				FromNs: int64(losses)})
		}
	}
	return m
}

// BenchmarkShare reads the share of one of 1,000 agents after losses and joins.
func BenchmarkShare(b *testing.B) {
	for name, m := range map[string]*spatev1.Stripe{
		"none": lossesAndJoins(500, 0, 0), "1-lost": lossesAndJoins(500, 1, 0), "100-lost": lossesAndJoins(500, 100, 0),
		"1-joined": lossesAndJoins(500, 0, 1),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewShare(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWalkOfChanged lets one of 1,000 agents walk through a stage of 10 million requests after losses and joins.
func BenchmarkWalkOfChanged(b *testing.B) {
	const requests = 10_000_000
	for name, m := range map[string]*spatev1.Stripe{
		"1-lost": lossesAndJoins(500, 1, 0), "100-lost": lossesAndJoins(500, 100, 0),
		"1-joined": lossesAndJoins(500, 0, 1),
	} {
		b.Run(name, func(b *testing.B) {
			s := shareOf(b, m)
			b.ReportAllocs()
			for b.Loop() {
				o, err := NewOpen(&spatev1.LoadPoint{Rate: 100_000, Arrival: "constant", Requests: requests}, 1, s)
				if err != nil {
					b.Fatal(err)
				}
				for _, more := o.Next(); more; _, more = o.Next() {
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/requests, "ns/request")
		})
	}
}

// BenchmarkRenew applies a loss after 10 million requests.
func BenchmarkRenew(b *testing.B) {
	late := map[string]time.Duration{"in-time": 99*time.Second + 500*time.Millisecond, "beyond-all-marks": time.Second}
	for name, from := range late {
		b.Run(name, func(b *testing.B) {
			m := lossesAndJoins(500, 0, 0)
			o, err := NewOpen(&spatev1.LoadPoint{Rate: 100_000, Arrival: "constant", Requests: 100_000_000}, 1,
				shareOf(b, m))
			if err != nil {
				b.Fatal(err)
			}
			for a, _ := o.Next(); a.Index < 10_000_000; a, _ = o.Next() {
			}
			for i := 0; b.Loop(); i++ {
				b.StopTimer()
				h := &spatev1.Handover{FromRank: uint32(i % 400), Weights: []uint32{500: 1}, FromNs: from.Nanoseconds()}
				m = &spatev1.Stripe{Weights: m.Weights, Rank: 500, Handovers: append(m.Handovers, h)}
				o.Revise(shareOf(b, m))
				b.StartTimer()
				if !o.Renew() {
					b.Fatal("nothing new")
				}
				for a, _ := o.Next(); a.Index < 10_000_000; a, _ = o.Next() {
				}
			}
		})
	}
}

// BenchmarkThink draws exponential think times.
func BenchmarkThink(b *testing.B) {
	c, err := NewClosed(&spatev1.LoadPoint{
		Concurrency: 1, Requests: 1, ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(time.Second),
			Distribution: "exponential"},
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

// BenchmarkClosed takes requests from a closed loop.
func BenchmarkClosed(b *testing.B) {
	s, err := NewStripe(sizes(), 500)
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

// BenchmarkLeft counts what one of two agents still had to send of 10 million randomly split arrivals when a stage is
// stopped.
func BenchmarkLeft(b *testing.B) {
	s, err := NewShare(&spatev1.Stripe{Weights: []uint32{1, 1}})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		o, err := NewOpen(&spatev1.LoadPoint{Rate: 1, Arrival: "poisson", Requests: 10_000_000, Split: "random"}, 1, s)
		if err != nil {
			b.Fatal(err)
		}
		o.Left()
	}
}
