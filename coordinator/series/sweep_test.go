package series_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sweepOf plays a sweep of 4 rates with the given synchronous and saturated throughputs, and returns its steps.
func sweepOf(t *testing.T, synchronous, saturated *float64) ([]string, series.Series) {
	t.Helper()
	s := series.New(&spatev1.LoadPoint{Arrival: "gamma", Burstiness: 2, Requests: 10,
		Sweep: &spatev1.Sweep{Points: 4, Saturation: 64}})
	var out []string
	for _, p := range play(t, s, func(p series.Step) series.Outcome {
		switch p.Load.GetConcurrency() {
		case 1:
			return series.Outcome{Throughput: synchronous}
		case 64:
			return series.Outcome{Throughput: saturated}
		}
		return series.Outcome{}
	}) {
		l := p.Load
		out = append(out, fmt.Sprintf("%d %s %d %v %s%v", p.Number, p.Purpose, l.GetConcurrency(), l.GetRate(),
			l.GetArrival(), l.GetBurstiness()))
		if l.GetSweep() != nil || l.GetRequests() != 10 {
			t.Errorf("load %v", l)
		}
	}
	return out, s
}

func TestSweep(t *testing.T) {
	low, high := 2.0, 80.0
	got, s := sweepOf(t, &low, &high)
	want := []string{
		"0 synchronous 1 0 0", "1 saturated 64 0 0",
		"2 rate 0 21.5 gamma2", "3 rate 0 41 gamma2", "4 rate 0 60.5 gamma2", "5 rate 0 80 gamma2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if text, good := concluded(s); text != "6 stages from one request at a time to 80 req/s" || !good {
		t.Error(text)
	}
}

func TestSweepWithoutRoom(t *testing.T) {
	two, less := 2.0, 1.9
	for _, c := range []struct {
		low, high *float64
		stages    int
		text      string
	}{
		{&two, &less, 2, "ended after 2 of 6 stages: concurrency 64 completed 1.9 req/s, no more than one request " +
			"at a time with 2 req/s: there is no rate between"},
		{&two, nil, 2, "ended after 2 of 6 stages: the request throughput with concurrency 64 is not known"},
		{nil, &two, 1, "ended after 1 of 6 stages: the request throughput with one request at a time is not known"},
	} {
		steps, s := sweepOf(t, c.low, c.high)
		if text, good := concluded(s); text != c.text || good || len(steps) != c.stages {
			t.Errorf("%q after %q, want %q", text, steps, c.text)
		}
	}
}
