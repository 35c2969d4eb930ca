package series

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestJudge(t *testing.T) {
	keep := &spatev1.Objectives{
		Latencies: []*spatev1.Limit{
			{Metric: "ttft", Percentile: 99, AtMost: durationpb.New(500 * time.Millisecond)},
			{Metric: "e2e_scheduled", AtMost: durationpb.New(2 * time.Second)},
		},
		ErrorShare: new(0.1), Goodput: new(0.9),
	}
	well := func() Outcome {
		return Outcome{Completed: 95, Failed: 5, Good: 91, Latencies: []*time.Duration{
			new(500 * time.Millisecond), new(time.Second),
		}}
	}
	for _, c := range []struct {
		name, reason string
		change       func(*Outcome)
	}{
		{"as it should be, at the limit", "", func(*Outcome) {}},
		{"slow", "p99 TTFT 812.35 ms > 500 ms", func(o *Outcome) { o.Latencies[0] = new(812345678 * time.Nanosecond) }},
		{"a part below its goodput", "part b: goodput 80 % < 90 %", func(o *Outcome) {
			part := *o
			part.Name, part.Good = "a", 95
			other := part
			other.Name, other.Good = "b", 80
			o.Parts = []Outcome{part, other}
		}},
		{"parts as they should be", "", func(o *Outcome) { o.Parts = []Outcome{*o, *o} }},
		{"slow on the mean", "mean E2E from schedule 2100 ms > 2000 ms",
			func(o *Outcome) { o.Latencies[1] = new(2100 * time.Millisecond) }},
		{"the first one broken is named", "p99 TTFT 700 ms > 500 ms",
			func(o *Outcome) { o.Latencies = []*time.Duration{new(700 * time.Millisecond), new(9 * time.Second)} }},
		{"no values", "p99 TTFT is not known: no request has one", func(o *Outcome) { o.Latencies[0] = nil }},
		{"no values at all", "p99 TTFT is not known: no request has one", func(o *Outcome) { o.Latencies = nil }},
		{"cut off", "p99 TTFT is not known: 4 of 104 requests were cancelled at the end of the drain",
			func(o *Outcome) { o.Latencies[0], o.Cancelled = nil, 4 }},
		{"errors", "error share 20 % > 10 %", func(o *Outcome) { o.Completed, o.Failed, o.Good = 80, 20, 80 }},
		{"goodput", "goodput 89 % < 90 %", func(o *Outcome) { o.Good = 89 }},
		{"cut off requests are not good", "goodput 86.67 % < 90 %", func(o *Outcome) { o.Cancelled = 5 }},
		{"nothing completed", "no request completed, 7 failed, 2 were cancelled",
			func(o *Outcome) { *o = Outcome{Failed: 7, Cancelled: 2} }},
		{"aborted", "aborted: it took longer than 1m0s",
			func(o *Outcome) { o.Aborted = "aborted: it took longer than 1m0s" }},
	} {
		o := well()
		c.change(&o)
		if kept, reason := Judge(keep, o); reason != c.reason || kept != (c.reason == "") {
			t.Errorf("%s: kept %v, %q, want %q", c.name, kept, reason, c.reason)
		}
	}
	if kept, reason := Judge(&spatev1.Objectives{ErrorShare: proto.Float64(0)}, Outcome{Completed: 1}); !kept {
		t.Errorf("no error, at most none: %s", reason)
	}
}

func TestSustained(t *testing.T) {
	poisson, bursty := &spatev1.LoadPoint{Rate: 50, Arrival: "poisson"}, &spatev1.LoadPoint{Rate: 50, Arrival: "gamma",
		Burstiness: 0.25}
	backlog := func(inFlight, started, ended uint64) Outcome {
		return Outcome{Completed: 3000, Backlog: &Backlog{Level: float64(inFlight), InFlight: inFlight, Due: 1000,
			Started: started, Ended: ended, Seconds: 20}}
	}
	for _, c := range []struct {
		name string
		load *spatev1.LoadPoint
		o    Outcome
		want bool
	}{
		{"nothing is known", poisson, Outcome{}, true},
		{"as many end as start", poisson, backlog(50, 900, 900), true},
		{"more end", poisson, backlog(50, 900, 950), true},
		{"chance: 3.5 sqrt(2 x 50) = 35", poisson, backlog(50, 1000, 965), true},
		{"beyond chance", poisson, backlog(50, 1000, 964), false},
		{"beyond chance, but as many as asked ended", poisson, backlog(50, 1100, 985), true},
		{"beyond chance, and fewer than asked", poisson, backlog(50, 1100, 984), false},
		{"bursts: 3.5 sqrt(2 x 4 x 50) = 70", bursty, backlog(50, 1000, 930), true},
		{"beyond bursts", bursty, backlog(50, 1000, 929), false},
		{"nothing in flight before", poisson, backlog(0, 985, 980), false},
	} {
		if ok, reason := sustained(c.o, c.load, 0.015); ok != c.want || ok != (reason == "") {
			t.Errorf("%s: %v, %q", c.name, ok, reason)
		}
	}
	_, reason := sustained(backlog(10, 1000, 800), poisson, 0.015)
	if want := "the server did not keep up: 40 req/s ended, and the requests in flight grew from 10 to 210"; reason != want {
		t.Error(reason)
	}
}

// A limit on TPOT alone does not detect a server that queues what it cannot run. Only the backlog does.
func TestASearchAsksForASustainedRate(t *testing.T) {
	const capacity = 40
	s := New(&spatev1.LoadPoint{Arrival: "poisson", Search: &spatev1.Search{
		Rate: &spatev1.Bounds{From: 1, To: 1000}, Precision: 0.03, Probes: 15, Repeats: 1,
		Keep: &spatev1.Objectives{Latencies: []*spatev1.Limit{{Metric: "tpot", Percentile: 99,
			AtMost: durationpb.New(50 * time.Millisecond)}}},
	}})
	for step, ok := s.Next(); ok; step, ok = s.Next() {
		const seconds = 60
		done := min(step.Value, capacity)
		s.Take(0, Outcome{
			Completed: 1000, Latencies: []*time.Duration{new(20 * time.Millisecond)}, Throughput: &done,
			Backlog: &Backlog{InFlight: 20, Due: step.Value * seconds, Started: uint64(step.Value * seconds),
				Ended: uint64(done * seconds), Seconds: seconds},
		})
	}
	rec := s.Record()
	limit := rec.GetLimits()[0]
	if kept := limit.GetKept(); kept < capacity*0.97 || kept > capacity*1.03 ||
		!strings.HasPrefix(limit.GetReason(), "the server did not keep up") {
		t.Errorf("found %v", rec)
	}
}

func TestNames(t *testing.T) {
	for name, want := range map[string]spatev1.Metric{
		"ttft": spatev1.Metric_METRIC_TTFT, "tpot": spatev1.Metric_METRIC_TPOT, "itl": spatev1.Metric_METRIC_ITL,
		"e2e":            spatev1.Metric_METRIC_E2E,
		"ttft_scheduled": spatev1.Metric_METRIC_TTFT_SCHEDULED, "e2e_scheduled": spatev1.Metric_METRIC_E2E_SCHEDULED,
		"nothing": 0,
	} {
		if got := Metric(name); got != want {
			t.Errorf("%s is %v", name, got)
		}
	}
	if got := loadpoint.LatencyWords("tpot", 99.9); got != "p99.9 TPOT" {
		t.Error(got)
	}
}

func TestUnmeasured(t *testing.T) {
	load, held := &spatev1.LoadPoint{Rate: 50}, &spatev1.LoadPoint{Rate: 50, MaxInFlight: 9}
	for _, c := range []struct {
		name, want string
		o          Outcome
	}{
		{"all is well", "", Outcome{Completed: 100, Unmeasured: ""}},
		{"an invalid measurement", "send delay", Outcome{Completed: 100, Unmeasured: "send delay"}},
		{"a few never sent", "", Outcome{Completed: 985, NeverSent: 15}},
		{"too many never sent", "16 of 1000 requests were never sent: the agents could not start them in time",
			Outcome{Completed: 984, NeverSent: 16}},
	} {
		if got := unmeasured(c.o, load, 0.015); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	unsent := Outcome{Completed: 984, NeverSent: 16}
	if got := unmeasured(unsent, held, 0.015); got != "" {
		t.Errorf("held back by plan: %q", got)
	}
	want := "the server did not keep up: 16 of 1000 requests were held back until the end, and never sent"
	if ok, got := sustained(unsent, held, 0.015); ok || got != want {
		t.Errorf("held back by plan: %q, want %q", got, want)
	}
	unsent.NeverSent = 14
	if ok, got := sustained(unsent, held, 0.015); !ok {
		t.Errorf("few held back by plan: %q", got)
	}
}
