package series_test

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// frontierOf returns a frontier over concurrencies, or over rates.
func frontierOf(from, to float64, open bool, points uint32, keep *spatev1.Objectives) *spatev1.LoadPoint {
	f := &spatev1.Frontier{Metric: "e2e", Tolerance: 0.1, Points: points, Keep: keep}
	l := &spatev1.LoadPoint{Requests: 100, Frontier: f}
	if open {
		f.Rate, l.Arrival = &spatev1.Bounds{From: from, To: to}, "poisson"
	} else {
		f.Concurrency = &spatev1.Bounds{From: from, To: to}
	}
	return l
}

// bending is a server whose throughput in a closed loop rises with the concurrency to its capacity. The larger
// sharpness, the sharper is its knee, which is at capacity * alone.
type bending struct {
	capacity, alone, sharpness float64
	limit                      time.Duration // E2E latency up to which requests are good; 0: there is no SLO
	noise                      func() float64
}

func (s bending) throughput(concurrency float64) float64 {
	linear := concurrency / s.alone
	return linear / math.Pow(1+math.Pow(linear/s.capacity, s.sharpness), 1/s.sharpness)
}

// closed returns what a stage of a closed loop measures. By Little's law the latency is concurrency / throughput.
func (s bending) closed(concurrency float64) series.Outcome {
	throughput := s.throughput(concurrency)
	if s.noise != nil {
		throughput *= s.noise()
	}
	return s.outcome(throughput, concurrency/throughput)
}

// open returns what a stage of an open loop measures: an M/M/1 queue, which falls behind from its capacity on.
func (s bending) open(rate float64) series.Outcome {
	if rate >= s.capacity {
		o := s.outcome(s.capacity, 10)
		o.Backlog = &series.Backlog{Level: 1, Due: rate * 100, Started: uint64(rate * 100),
			Ended: uint64(s.capacity * 100 * 0.97), Seconds: 100}
		return o
	}
	return s.outcome(rate, 1/(s.capacity-rate))
}

func (s bending) outcome(throughput, latency float64) series.Outcome {
	d := time.Duration(latency * float64(time.Second))
	o := series.Outcome{Completed: 1_000_000, Throughput: &throughput, Latencies: []*time.Duration{&d}}
	if s.limit > 0 {
		// Exponential latencies with this mean.
		o.Good = uint64(float64(o.Completed) * (1 - math.Exp(-s.limit.Seconds()/latency)))
	}
	return o
}

// farthest returns the largest distance of a server's curve from the straight lines between the points of a record, on
// logarithmic scales.
func farthest(rec *spatev1.SeriesRecord, truth func(load float64) float64) (most float64) {
	points := rec.GetPoints()
	for i := range len(points) - 1 {
		a, b := points[i], points[i+1]
		for k := range 101 {
			load := a.GetLoad() * math.Pow(b.GetLoad()/a.GetLoad(), float64(k)/100)
			line := math.Log(a.GetThroughput()) + math.Log(b.GetThroughput()/a.GetThroughput())*float64(k)/100
			most = max(most, math.Abs(line-math.Log(truth(load))))
		}
	}
	return most
}

// TestFrontierKnowsTheCurve: whatever the server's knee and its sharpness are, 12 stages give throughput and latency at
// each concurrency within the tolerance, and the frontier ends in saturation.
func TestFrontierKnowsTheCurve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		srv := bending{capacity: rapid.Float64Range(20, 200).Draw(t, "capacity"),
			alone:     rapid.Float64Range(0.1, 2).Draw(t, "alone"),
			sharpness: rapid.Float64Range(1.5, 50).Draw(t, "sharpness")}
		s := series.New(frontierOf(1, 4096, false, 12, nil))
		steps := play(t, s, func(p series.Step) series.Outcome { return srv.closed(float64(p.Load.GetConcurrency())) })
		rec := s.Record()
		if len(steps) > 12 || !rec.GetConverged() || rec.GetEnd() == "" {
			t.Fatalf("%d stages: %v", len(steps), rec)
		}
		if got := farthest(rec, srv.throughput); got > math.Log(1.1) {
			t.Fatalf("the curve is off by %.3f: %v", got, rec)
		}
		last := rec.GetPoints()[len(rec.GetPoints())-1]
		if last.GetThroughput() < 0.85*srv.capacity {
			t.Fatalf("the frontier ended at %v of %v", last.GetThroughput(), srv.capacity)
		}
	})
}

// TestFrontierOfARate: over rates the frontier ends at the server's capacity, within the tolerance, and no stage is
// spent on rates far above it.
func TestFrontierOfARate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		srv := bending{capacity: rapid.Float64Range(20, 400).Draw(t, "capacity")}
		s := series.New(frontierOf(1, 1000, true, 30, nil))
		over := 0
		play(t, s, func(p series.Step) series.Outcome {
			if p.Load.GetRate() > 1.1*srv.capacity {
				over++
			}
			return srv.open(p.Load.GetRate())
		})
		rec := s.Record()
		highest := 0.0
		for _, p := range rec.GetPoints() {
			if p.GetLeftOut() == "" {
				highest = max(highest, p.GetLoad())
			}
		}
		if !rec.GetConverged() || highest < srv.capacity/1.15 || highest > 1.1*srv.capacity || over > 2 {
			t.Fatalf("capacity %v: up to %v, %d stages far above it: %v", srv.capacity, highest, over, rec)
		}
	})
}

// TestFrontierFindsTheHighestGoodput: the highest goodput of all concurrencies is at most the tolerance above the one
// that the frontier found.
func TestFrontierFindsTheHighestGoodput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		alone := rapid.Float64Range(0.1, 2).Draw(t, "alone")
		srv := bending{capacity: rapid.Float64Range(20, 200).Draw(t, "capacity"), alone: alone,
			sharpness: rapid.Float64Range(2, 50).Draw(t, "sharpness"),
			limit:     time.Duration(alone * rapid.Float64Range(0.7, 10).Draw(t, "limit") * float64(time.Second))}
		goodput := func(concurrency float64) float64 {
			o := srv.closed(concurrency)
			return *o.Throughput * float64(o.Good) / float64(o.Completed)
		}
		truth := 0.0
		for n := range 4096 {
			truth = max(truth, goodput(float64(n+1)))
		}
		s := series.New(frontierOf(1, 4096, false, 15, nil))
		play(t, s, func(p series.Step) series.Outcome { return srv.closed(float64(p.Load.GetConcurrency())) })
		rec := s.Record()
		for _, p := range rec.GetPoints() {
			if p.GetStageIndex() == rec.GetBest() && rec.Best != nil {
				if found := goodput(p.GetLoad()); !rec.GetConverged() || found < truth/1.1 {
					t.Fatalf("%v of %v: %v", found, truth, rec)
				}
				return
			}
		}
		t.Fatalf("no highest goodput: %v", rec)
	})
}

// TestFrontierFindsLoadsWithinLimits: each part of a mixture has the highest load of its own, and the whole that of its
// worst part, if each part must keep the limits.
func TestFrontierFindsLoadsWithinLimits(t *testing.T) {
	limits := map[string]float64{"chat": 20, "batch": 90}
	keep := &spatev1.Objectives{Goodput: proto.Float64(0.95), EachPart: true}
	srv := bending{capacity: 100, alone: 0.5, sharpness: 4}
	s := series.New(frontierOf(1, 512, false, 20, keep))
	steps := play(t, s, func(p series.Step) series.Outcome {
		o := srv.closed(float64(p.Load.GetConcurrency()))
		o.Good = o.Completed
		for _, name := range []string{"chat", "batch"} {
			part := series.Outcome{Name: name, Completed: 100, Good: 100}
			if float64(p.Load.GetConcurrency()) > limits[name] {
				part.Good = 90
			}
			o.Parts = append(o.Parts, part)
		}
		return o
	})
	want := map[string]float64{"": 20, "chat": 20, "batch": 90}
	for _, l := range s.Record().GetLimits() {
		truth := want[l.GetPart()]
		if l.GetKept() > truth || l.GetBroke() <= truth || l.GetBroke() > 1.1001*l.GetKept()+1 ||
			!strings.Contains(l.GetReason(), "goodput 90 % < 95 %") {
			t.Errorf("part %q: %v, want %v", l.GetPart(), l, truth)
		}
		delete(want, l.GetPart())
	}
	if len(want) > 0 || len(steps) == 20 {
		t.Errorf("%d stages, %v are missing", len(steps), want)
	}
	text, good := concluded(s)
	if !good || !strings.Contains(text, "part batch: concurrency ") {
		t.Errorf("%v: %s", good, text)
	}
}

// TestFrontierLeavesOutWhatItCannotMeasure: a stage whose measurement is invalid is run again. If it is invalid again,
// the curve ends below it, and no further stage is spent there.
func TestFrontierLeavesOutWhatItCannotMeasure(t *testing.T) {
	srv := bending{capacity: 1e6, alone: 1, sharpness: 4}
	s := series.New(frontierOf(1, 512, false, 12, nil))
	steps := play(t, s, func(p series.Step) series.Outcome {
		o := srv.closed(float64(p.Load.GetConcurrency()))
		if p.Load.GetConcurrency() > 64 {
			o.Unmeasured = "the agents were too slow"
		}
		return o
	})
	var got []string
	for _, p := range steps {
		got = append(got, p.Purpose+" "+strconv.Itoa(int(p.Value)))
	}
	want := "bracket 1, bracket 4, bracket 16, bracket 64, bracket 256, again 256"
	rec := s.Record()
	if strings.Join(got, ", ") != want || !rec.GetConverged() || len(rec.GetPoints()) != 6 ||
		rec.GetEnd() != "concurrency 256 is not on the curve: the agents were too slow" ||
		rec.GetPoints()[5].GetPareto() {
		t.Errorf("%s: %v", strings.Join(got, ", "), rec)
	}
}

// TestFrontierEnds: what a frontier says if it cannot find out everything.
func TestFrontierEnds(t *testing.T) {
	srv := bending{capacity: 100, alone: 0.5, sharpness: 4}
	for _, c := range []struct {
		name               string
		load               *spatev1.LoadPoint
		change             func(*series.Outcome)
		end                string // after this many stages; empty: never
		converged, whole   bool
		conclusion, reason string
	}{
		{name: "the upper bound", load: frontierOf(1, 16, false, 12, nil), converged: true, whole: true,
			conclusion: "the upper bound of the frontier"},
		{name: "too few for saturation", load: frontierOf(1, 100_000, false, 3, nil), whole: true,
			conclusion: "knee at", reason: "its points are too few"},
		{name: "nothing completed", load: frontierOf(1, 16, false, 12, nil),
			change:     func(o *series.Outcome) { *o = series.Outcome{Failed: 100} },
			conclusion: "the lowest load", reason: "concurrency 1, is not on the curve: no request completed"},
		{name: "too short", load: frontierOf(1, 16, false, 12, nil),
			change:     func(o *series.Outcome) { o.Short = true },
			conclusion: "the lowest load", reason: "in no whole second of the stage were all of its slots busy"},
		{name: "stopped", load: frontierOf(1, 512, false, 12, nil), end: "stopped on request",
			conclusion: "1 stage", reason: "stopped on request"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := series.New(c.load)
			play(t, s, func(p series.Step) series.Outcome {
				o := srv.closed(float64(p.Load.GetConcurrency()))
				if c.change != nil {
					c.change(&o)
				}
				if c.end != "" && p.Number == 1 {
					s.End(c.end)
				}
				return o
			})
			rec := s.Record()
			text, good := concluded(s)
			if good != c.converged || rec.GetConverged() != c.converged || rec.GetComplete() != c.whole ||
				!strings.Contains(text, c.conclusion) || !strings.Contains(rec.GetReason(), c.reason) {
				t.Errorf("%s; %v", text, rec)
			}
		})
	}
}

// TestFrontierSurvivesBadStages: one stage in twenty meets bad seconds: it completes 30 to 90 % of what it would, and
// its requests take up to five times as long. Frontiers know the highest load within the limits as if it had not, and
// go up to the server's capacity.
func TestFrontierSurvivesBadStages(t *testing.T) {
	keep := &spatev1.Objectives{Latencies: []*spatev1.Limit{
		{Metric: "e2e", Percentile: 99, AtMost: durationpb.New(100 * time.Millisecond)}}}
	srv := bending{capacity: 100}
	const truth = 90.0 // 1 / (capacity - 90) = 100 ms
	near, far, stages := 0, 0, 0
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 1))
		s := series.New(frontierOf(1, 1000, true, 40, keep))
		stages += len(play(t, s, func(p series.Step) series.Outcome {
			o := srv.open(p.Load.GetRate())
			if random.IntN(20) == 0 {
				o.Throughput = new(*o.Throughput * (0.3 + 0.6*random.Float64()))
				o.Latencies[0] = new(time.Duration(float64(*o.Latencies[0]) * (1 + 4*random.Float64())))
			}
			o.Latencies = append(o.Latencies, o.Latencies[0])
			return o
		}))
		rec := s.Record()
		kept := rec.GetLimits()[0].GetKept()
		off := math.Abs(math.Log(kept / truth))
		if last := rec.GetPoints()[len(rec.GetPoints())-1].GetLoad(); off > math.Log(1.25) || last < 100 {
			far++
			t.Logf("seed %d: %v is within the limits, of %v, up to %v", seed, kept, truth, last)
		}
		if off <= math.Log(1.1) {
			near++
		}
	}
	t.Logf("%d of 200 within 10 %%, %d far off, %.1f stages each", near, far, float64(stages)/200)
	if near < 196 || far > 2 {
		t.Errorf("want at least 196 within 10 %%, and at most 2 far off")
	}
}
