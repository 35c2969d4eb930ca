package series_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// limit is the p99 TTFT that the tests' searches keep.
const limit = 500 * time.Millisecond

// template returns a search for a rate or a concurrency.
func template(from, to float64, open bool, change ...func(*spatev1.Search)) *spatev1.LoadPoint {
	s := &spatev1.Search{
		Precision: 0.03, Probes: 50, Repeats: 1,
		Keep: &spatev1.Objectives{Latencies: []*spatev1.Limit{{Metric: "ttft", Percentile: 99,
			AtMost: durationpb.New(limit)}}},
	}
	l := &spatev1.LoadPoint{Requests: 1000, Search: s}
	if open {
		s.Rate, l.Arrival = &spatev1.Bounds{From: from, To: to}, "poisson"
	} else {
		s.Concurrency = &spatev1.Bounds{From: from, To: to}
	}
	for _, f := range change {
		f(s)
	}
	return l
}

// server is a server that keeps the limit up to its knee and completes at most its capacity. Somewhat above the knee
// even its fastest requests break the limit.
type server struct {
	knee, capacity float64
	noise          func() float64 // factor on throughput; nil: none
}

// run returns what a stage at a load measures.
func (s server) run(value float64) series.Outcome {
	ttft, fastest := limit/2, limit/2
	if value > s.knee {
		ttft = 2 * limit
	}
	if value > 1.2*s.knee {
		fastest = 2 * limit
	}
	throughput := min(value, s.capacity)
	if s.noise != nil {
		throughput *= s.noise()
	}
	return series.Outcome{Completed: 1000, Latencies: []*time.Duration{&ttft}, Fastest: []*time.Duration{&fastest},
		Throughput: &throughput}
}

// play runs a series to its end and returns its steps.
func play(t interface{ Fatalf(string, ...any) }, s series.Series, run func(series.Step) series.Outcome) []series.Step {
	var steps []series.Step
	for step, ok := s.Next(); ok; step, ok = s.Next() {
		if len(steps) > 2000 {
			t.Fatalf("the series does not end: %v", steps[len(steps)-5:])
		}
		steps = append(steps, step)
		s.Take(uint32(10+len(steps)-1), run(step))
	}
	return steps
}

// concluded returns what a series found in words, and whether that is all that was asked for.
func concluded(s series.Series) (text string, good bool) {
	rec := s.Record()
	return rec.GetSentence(), rec.GetConverged() && rec.GetComplete()
}

// Wherever the knee lies between 1 and 1000, and whatever throughput broken probes have, 50 probes find the knee within
// 3 %.
func TestSearchFindsTheKneeInItsProbes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Float64Range(0.01, 1000).Draw(t, "from")
		to := from * rapid.Float64Range(1.5, 1000).Draw(t, "ratio")
		knee := from * math.Pow(to/from, rapid.Float64Range(0, 1.05).Draw(t, "knee"))
		srv := server{knee: knee, capacity: knee * rapid.Float64Range(0.5, 2).Draw(t, "capacity"),
			noise: func() float64 {
				return rapid.Float64Range(0.9, 1.1).Draw(t, "noise")
			}}
		s := series.New(template(from, to, true))
		steps := play(t, s, func(p series.Step) series.Outcome { return srv.run(p.Load.GetRate()) })
		rec := s.Record()
		if len(steps) > 50 || !rec.GetConverged() {
			t.Fatalf("%d probes, converged %v: %v", len(steps), rec.GetConverged(), rec)
		}
		if knee >= to {
			if rec.GetLimits()[0].GetKept() != to || rec.GetLimits()[0].Broke != nil {
				t.Fatalf("the knee is beyond the bounds, found %v", rec)
			}
			return
		}
		l := rec.GetLimits()[0]
		if kept := l.GetKept(); kept > knee || l.GetBroke() <= knee || kept < knee/1.0300001 {
			t.Fatalf("knee %v, found %v", knee, rec)
		}
	})
}

func TestSearchFindsTheConcurrency(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := float64(rapid.IntRange(1, 50).Draw(t, "from"))
		to := from + float64(rapid.IntRange(1, 2000).Draw(t, "more"))
		knee := float64(rapid.IntRange(int(from), int(to)+1).Draw(t, "knee"))
		s := series.New(template(from, min(to, 1000*from), false))
		steps := play(
			t,
			s,
			func(p series.Step) series.Outcome { return server{knee: knee}.run(float64(p.Load.GetConcurrency())) },
		)
		rec := s.Record()
		if len(steps) > 50 || !rec.GetConverged() {
			t.Fatalf("%d probes, converged %v: %v", len(steps), rec.GetConverged(), rec)
		}
		kept, broke := rec.GetLimits()[0].GetKept(), rec.GetLimits()[0].GetBroke()
		if rec.GetLimits()[0].Broke == nil {
			broke = math.Inf(1)
			if kept != min(to, 1000*from) {
				t.Fatalf("not limited, but at %v of %v", kept, to)
			}
		} else if broke-kept > 1 && (broke-kept)/kept > 0.03 {
			t.Fatalf("%v to %v is too wide", kept, broke)
		}
		if kept > knee || broke <= knee {
			t.Fatalf("knee %v, found %v", knee, rec)
		}
	})
}

// The worst cases over a fine grid of knees, and how many probes an honest throughput saves. The figures are part of
// the contract: a change in the choice of probes shows here.
func TestProbesThatASearchTakes(t *testing.T) {
	for _, c := range []struct {
		name     string
		capacity float64 // as a share of the knee; 0: broken probes say nothing
		worst    int
		mean     float64
	}{
		{"throughput tells nothing", 0, 22, 16.3},
		{"the knee is the capacity", 1, 21, 14.3},
		{"latencies break at 80 % of the capacity", 1.25, 22, 16.4},
	} {
		worst, sum, n := 0, 0, 0
		for knee := 1.0; knee < 1000; knee *= 1.003 {
			s := series.New(template(1, 1000, true))
			steps := play(t, s, func(p series.Step) series.Outcome {
				o := server{knee: knee, capacity: knee * c.capacity}.run(p.Value)
				if c.capacity == 0 {
					o.Throughput = nil
				}
				return o
			})
			worst, sum, n = max(worst, len(steps)), sum+len(steps), n+1
		}
		t.Logf("%s: %d probes at most, %.1f on average", c.name, worst, float64(sum)/float64(n))
		if mean := float64(sum) / float64(n); worst > c.worst || mean > c.mean {
			t.Errorf("%s: %d probes at most, %.1f on average; want %d and %.1f", c.name, worst, mean, c.worst, c.mean)
		}
	}
}

// course plays a search and returns its course in one line.
func course(t *testing.T, l *spatev1.LoadPoint, run func(series.Step) series.Outcome) (string, series.Series) {
	t.Helper()
	s := series.New(l)
	var out []string
	for _, p := range play(t, s, run) {
		out = append(out, fmt.Sprintf("%s %v", p.Purpose, p.Value))
	}
	return strings.Join(out, ", "), s
}

func TestCourses(t *testing.T) {
	atKnee := func(knee, capacity float64) func(series.Step) series.Outcome {
		return func(p series.Step) series.Outcome { return server{knee: knee, capacity: capacity}.run(p.Value) }
	}
	for _, c := range []struct {
		name, course, conclusion string
		load                     *spatev1.LoadPoint
		run                      func(series.Step) series.Outcome
		good                     bool
	}{
		{
			name: "doubles, and tries the throughput of the failed probe first", load: template(1, 64, true),
			run: atKnee(42.5, 42.5),
			course: "bracket 1, bracket 2, bracket 4, bracket 8, bracket 16, bracket 32, bracket 64, bisect " +
				"41.86, bisect 43.07, confirm 43.07, confirm 45.65, confirm 45.65, confirm 41.86",
			conclusion: "41.86 req/s is within the limits in 2 of 2 probes, 43.07 req/s is too high in 2 of 2 probes " +
				"(p99 TTFT 1000 ms > 500 ms); 13 probes",
			good: true,
		},
		{
			name: "nothing is kept", load: template(8, 64, true), run: atKnee(5, 5),
			course: "bracket 8, confirm 8",
			conclusion: "no load is within the limits: 8 req/s is too high in 2 of 2 probes (p99 TTFT 1000 ms > 500 ms); " +
				"the search does not go below 8 req/s; 2 probes",
		},
		{
			name: "the upper bound is kept", load: template(8, 20, true), run: atKnee(50, 50),
			course: "bracket 8, bracket 16, bracket 20, confirm 20",
			conclusion: "20 req/s is within the limits in 2 of 2 probes; the upper bound of the search: raise it to find " +
				"the limit; 4 probes",
			good: true,
		},
		{
			name: "concurrency by whole numbers", load: template(1, 16, false), run: atKnee(6, 6),
			course: "bracket 1, bracket 2, bracket 4, bracket 8, confirm 8, bisect 6, bisect 7, confirm 7, confirm 6",
			conclusion: "concurrency 6 is within the limits in 2 of 2 probes, concurrency 7 is too high in 2 of 2 probes " +
				"(p99 TTFT 1000 ms > 500 ms); 9 probes", good: true,
		},
		{
			name: "too few probes", load: template(1, 1000, true, func(s *spatev1.Search) { s.Probes = 4 }),
			run:    atKnee(300, 5000),
			course: "bracket 1, bracket 31.62, bracket 1000, confirm 1000",
			conclusion: "31.62 req/s is within the limits in 1 of 1 probes, 1000 req/s is too high in 2 of 2 probes " +
				"(p99 TTFT 1000 ms > 500 ms); its probes are too few for a precision of 3 %: raise probes or narrow the " +
				"bounds; 4 probes",
		},
	} {
		got, s := course(t, c.load, c.run)
		text, good := concluded(s)
		if got != c.course || text != c.conclusion || good != c.good {
			t.Errorf("%s:\n%s\n%s (good: %v), want\n%s\n%s", c.name, got, text, good, c.course, c.conclusion)
		}
	}
}

// One bad second at 4 req/s does not bound the answer: the load is probed again before lower ones are.
func TestABadMomentIsOverruled(t *testing.T) {
	probes := 0
	got, s := course(t, template(1, 16, true), func(p series.Step) series.Outcome {
		if probes++; probes == 3 {
			return server{knee: 3.9}.run(p.Value)
		}
		return server{knee: 20}.run(p.Value)
	})
	if want := "bracket 1, bracket 2, bracket 4, confirm 4, confirm 4, bracket 8, bracket 16, confirm 16"; got != want {
		t.Errorf("%s, want\n%s", got, want)
	}
	if rec := s.Record(); rec.GetLimits()[0].GetKept() != 16 || rec.GetOverruled() != 1 || len(rec.GetPoints()) != 2 {
		t.Errorf("found %v", rec)
	}
	if text, _ := concluded(s); !strings.HasSuffix(text, "; 8 probes, 1 of them overruled by the others") {
		t.Error(text)
	}
}

// A load that most probes break is too high, though its first probe kept.
func TestConfirmationMovesTheAnswerDown(t *testing.T) {
	seen := map[float64]int{}
	_, s := course(t, template(1, 8, true, func(s *spatev1.Search) { s.Precision = 0.5 }),
		func(p series.Step) series.Outcome {
			seen[p.Value]++
			knee := 4.5
			if seen[p.Value] > 1 {
				knee = 3 // the first probe was luck
			}
			return server{knee: knee, capacity: 100}.run(p.Value)
		})
	rec := s.Record()
	l := rec.GetLimits()[0]
	if l.GetKept() != 2.828 || l.GetBroke() != 4 || !rec.GetConverged() || rec.GetOverruled() != 1 {
		t.Errorf("found %v", rec)
	}
}

// A probe that broke while its measurement was in doubt is run again before anything follows from it.
func TestDoubtfulProbesAreConfirmedFirst(t *testing.T) {
	got, s := course(t, template(1, 8, false), func(p series.Step) series.Outcome {
		o := server{knee: 4}.run(p.Value)
		if o.Verdict = "VALID"; p.Value == 6 || p.Value == 5 {
			o.Verdict, o.Doubts = "SUSPECT", "send delay p99 30 ms"
		}
		return o
	})
	if !strings.Contains(got, "bisect 6, confirm 6,") || !strings.Contains(got, "bisect 5, confirm 5,") {
		t.Error(got)
	}
	if text, _ := concluded(s); !strings.Contains(text, "; SUSPECT: at concurrency 5, send delay p99 30 ms; ") {
		t.Error(text)
	}
}

// Repeats are for the margin of the throughput.
func TestRepeats(t *testing.T) {
	n := 0
	got, s := course(t, template(4, 5, true, func(s *spatev1.Search) { s.Repeats, s.Rate.To = 3, 4 }),
		func(p series.Step) series.Outcome {
			n++
			o := server{knee: 5}.run(p.Value)
			o.Throughput = new([]float64{3.9, 4.0, 4.1}[n-1])
			return o
		})
	if want := "bracket 4, confirm 4, repeat 4"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	text, _ := concluded(s)
	// 4.3027 x 0.1 / sqrt(3) = 0.2484
	if want := "4 req/s is within the limits in 3 of 3 probes; 4 req/s ± 0.2484 req/s completed, to 95 %; " +
		"the upper bound of the search: raise it to find the limit; 3 probes"; text != want {
		t.Errorf("%s, want\n%s", text, want)
	}
}

// An answer whose percentile has few values says so.
func TestFewValuesAreTold(t *testing.T) {
	_, s := course(t, template(1, 4, false), func(p series.Step) series.Outcome {
		o := server{knee: 9}.run(p.Value)
		o.Completed = 999
		return o
	})
	if text, _ := concluded(s); !strings.Contains(text,
		"; p99 TTFT is known from 999 requests only: give each stage 1000 or more; ") {
		t.Error(text)
	}
}

// Whatever the outcomes are, the number of stages is bounded, and the result is consistent with the outcomes.
func TestRandomOutcomes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		open := rapid.Bool().Draw(t, "open")
		probes, repeats := rapid.Uint32Range(1, 20).Draw(t, "probes"), rapid.Uint32Range(1, 5).Draw(t, "repeats")
		from := float64(rapid.IntRange(1, 100).Draw(t, "from"))
		s := series.New(template(from, from+float64(rapid.IntRange(0, 5000).Draw(t, "width")), open,
			func(s *spatev1.Search) {
				s.Probes, s.Repeats = probes, repeats
				s.Precision = rapid.SampledFrom([]float64{1e-12, 0.001, 0.03, 0.2, 1}).Draw(t, "precision")
			}))
		steps := play(t, s, func(p series.Step) series.Outcome {
			broken := rapid.Bool().Draw(t, "broken")
			if broken {
				return series.Outcome{Failed: 1,
					Throughput: new(rapid.Float64Range(0, 6000).Draw(t, "throughput"))}
			}
			return server{knee: math.Inf(1)}.run(p.Value)
		})
		if n := uint32(len(steps)); n > probes+repeats-1 || n != s.Record().GetStages() {
			t.Fatalf("%d stages of %d probes and %d repeats", n, probes, repeats)
		}
		rec := s.Record()
		if l := rec.GetLimits()[0]; l.Kept != nil && l.Broke != nil && l.GetKept() >= l.GetBroke() {
			t.Fatalf("kept %v, broke %v", l.GetKept(), l.GetBroke())
		}
	})
}

func TestEndedEarly(t *testing.T) {
	s := series.New(template(1, 1000, true))
	s.End("agent a lost")
	s.End("and again")
	if _, ok := s.Next(); ok {
		t.Error("it continues")
	}
	if text, good := concluded(s); text != "the search ended early: agent a lost" || good {
		t.Error(text)
	}
	if rec := s.Record(); rec.GetConverged() || rec.GetLimits()[0].Kept != nil || rec.GetLimits()[0].Broke != nil {
		t.Errorf("found %v", rec)
	}
	s = series.New(template(1, 1000, true))
	s.Take(0, server{knee: 5}.run(1))
	s.End("agent a lost")
	if text, good := concluded(s); text != "1 req/s is within the limits in 1 of 1 probes, higher loads were not measured; "+
		"the search ended early: agent a lost; 1 probe" || good {
		t.Error(text)
	}
}

func TestStepsAreWholeLoads(t *testing.T) {
	l := template(2, 8, false)
	l.ThinkTime = &spatev1.ThinkTime{Mean: durationpb.New(time.Second)}
	step, _ := series.New(l).Next()
	if got := step.Load; got.GetConcurrency() != 2 || got.GetSearch() != nil || got.GetThinkTime() == nil ||
		got.GetRequests() != 1000 {
		t.Errorf("%v", got)
	}
	step, _ = series.New(template(2, 8, true)).Next()
	if got := step.Load; got.GetRate() != 2 || got.GetArrival() != "poisson" || got.GetConcurrency() != 0 ||
		got.GetSearch() != nil {
		t.Errorf("%v", got)
	}
	if series.New(&spatev1.LoadPoint{Rate: 2}) != nil {
		t.Error("a load without search or sweep makes a series")
	}
}

// A probe with an invalid measurement is run again. If it is invalid again, the search ends with what it knows, and
// says so.
func TestInvalidProbesAreRunAgain(t *testing.T) {
	invalid := func(o series.Outcome) series.Outcome {
		o.Unmeasured, o.Verdict, o.Doubts = "send delay p99 530 ms", "INVALID", "send delay p99 530 ms"
		return o
	}
	for _, c := range []struct {
		name, course, conclusion string
		good                     bool
		times                    map[float64]int // how often each load is invalid
	}{
		{
			name: "once", times: map[float64]int{1: 1, 8: 1}, good: true,
			course: "bracket 1, again 1, bracket 2, bracket 4, bracket 8, again 8, confirm 8, bisect 6, bisect 7, confirm 7, " +
				"confirm 6",
			conclusion: "concurrency 6 is within the limits in 2 of 2 probes, concurrency 7 is too high in 2 of 2 probes " +
				"(p99 TTFT 1000 ms > 500 ms); VALID; 11 probes",
		},
		{
			name: "twice above what was kept", times: map[float64]int{4: 2},
			course: "bracket 1, bracket 2, bracket 4, again 4",
			conclusion: "concurrency 2 is within the limits in 1 of 1 probes, higher loads were not measured; VALID; the search " +
				"ended early: concurrency 4 could not be measured twice (send delay p99 530 ms): give the run more agents or " +
				"cores; 4 probes",
		},
		{
			name: "from the start", times: map[float64]int{1: 2}, course: "bracket 1, again 1",
			conclusion: "the search ended early: concurrency 1 could not be measured twice (send " +
				"delay p99 530 ms): give the run more agents or cores",
		},
	} {
		got, s := course(t, template(1, 16, false), func(p series.Step) series.Outcome {
			o := server{knee: 6, capacity: 6}.run(p.Value)
			o.Verdict = "VALID"
			if c.times[p.Value]--; c.times[p.Value] >= 0 {
				return invalid(o)
			}
			return o
		})
		text, good := concluded(s)
		if got != c.course || text != c.conclusion || good != c.good {
			t.Errorf("%s:\n%s\n%s (good: %v), want\n%s\n%s", c.name, got, text, good, c.course, c.conclusion)
		}
	}
}

// The result has the worst verdict of the probes on which it is based.
func TestTheAnswerHasAVerdict(t *testing.T) {
	_, s := course(t, template(1, 16, false), func(p series.Step) series.Outcome {
		o := server{knee: 6, capacity: 6}.run(p.Value)
		o.Verdict = "VALID"
		if p.Value == 7 {
			o.Verdict, o.Doubts = "SUSPECT", "12 of 1000 requests failed"
		}
		return o
	})
	if rec := s.Record(); rec.GetVerdict() != "SUSPECT" || rec.GetDoubts() != "at concurrency 7, 12 of 1000 requests failed" {
		t.Errorf("%v", rec)
	}
	if text, _ := concluded(s); !strings.Contains(text,
		"; SUSPECT: at concurrency 7, 12 of 1000 requests failed; 9 probes") {
		t.Error(text)
	}
}
