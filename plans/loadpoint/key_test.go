package loadpoint

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestWords(t *testing.T) {
	tests := map[string]*spatev1.LoadPoint{
		"concurrency 8":          {Concurrency: 8, Requests: 80},
		"2 req/s poisson":        {Rate: 2, Arrival: "poisson"},
		"0.25 req/s constant":    {Rate: 0.25, Arrival: "constant"},
		"10000000 req/s poisson": {Rate: 1e7, Arrival: "poisson"},
		"2 req/s gamma 0.5":      {Rate: 2, Arrival: "gamma", Burstiness: 0.5},
		"replay":                 {Arrival: "trace", ReplaySpeed: 1},
		"replay x10":             {Arrival: "trace", ReplaySpeed: 10},
		"sweep of 8 rates":       {Arrival: "poisson", Sweep: &spatev1.Sweep{Points: 8}},

		"search 1 to 9 req/s poisson": {Arrival: "poisson",
			Search: &spatev1.Search{Rate: &spatev1.Bounds{From: 1, To: 9}}},
		"search concurrency 1 to 9":              {Search: &spatev1.Search{Concurrency: &spatev1.Bounds{From: 1, To: 9}}},
		"1 to 20 to 5 req/s constant":            {Rate: 20, Arrival: "constant", Phases: phases(1, 20, 20, 20, 20, 5)},
		"concurrency 1 to 20":                    {Concurrency: 20, Phases: phases(1, 20)},
		"concurrency 5 phases up to 9":           {Concurrency: 9, Phases: phases(1, 2, 2, 3, 3, 4, 4, 5, 5, 9)},
		"2 req/s constant, at most 64 in flight": {Rate: 2, Arrival: "constant", MaxInFlight: 64},
		"concurrency 8, stagger 1.5s":            {Concurrency: 8, Stagger: durationpb.New(1500 * time.Millisecond)},
		"concurrency 8, think time 2s, repeat 2": {Concurrency: 8, Repeat: 1,
			ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(2 * time.Second)}},
	}
	for want, point := range tests {
		if got := Words(point); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// phases returns phases of one second each: from the first value to the second, from the third to the fourth, and so
// on.
func phases(values ...float64) []*spatev1.Phase {
	var list []*spatev1.Phase
	for i := 0; i < len(values); i += 2 {
		list = append(list, &spatev1.Phase{From: values[i], To: new(values[i+1]),
			Duration: durationpb.New(time.Second)})
	}
	return list
}

func drawPoint(t *rapid.T, name string) *spatev1.LoadPoint {
	few := rapid.Uint64Range(0, 2)
	l := &spatev1.LoadPoint{
		Concurrency: rapid.Uint32Range(0, 2).Draw(t, name), Rate: rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, name),
		Arrival: rapid.SampledFrom([]string{"", "poisson", "constant", `a" b=`}).Draw(t, name), Requests: few.Draw(t, name),
		WarmupRequests: few.Draw(t, name),
	}
	if d := few.Draw(t, name); d > 0 {
		l.Duration = durationpb.New(time.Duration(d))
	}
	if d := few.Draw(t, name); d > 0 {
		l.WarmupDuration = durationpb.New(time.Duration(d))
	}
	if rapid.Bool().Draw(t, name) {
		l.Burstiness, l.Repeat = float64(few.Draw(t, name)), uint32(few.Draw(t, name))
		for range few.Draw(t, name) {
			l.Phases = append(l.Phases, &spatev1.Phase{From: float64(few.Draw(t, name))})
		}
		if few.Draw(t, name) == 1 {
			l.Abort = &spatev1.Abort{ErrorShare: new(float64(few.Draw(t, name)))}
		}
	}
	return l
}

// TestKey: keys are equal if and only if the points are.
func TestKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPoint(t, "a"), drawPoint(t, "b")
		if same, keys := a.String() == b.String(), Key(a) == Key(b); same != keys {
			t.Fatalf("%v and %v: same %v, keys same %v", a, b, same, keys)
		}
	})
}

// TestSplitIsNotPartOfTheLoad: the requests are the same whichever agent sends them.
func TestSplitIsNotPartOfTheLoad(t *testing.T) {
	a := &spatev1.LoadPoint{Rate: 2, Arrival: "poisson", Requests: 9, Split: "random"}
	b := proto.CloneOf(a)
	b.Split = "in_turn"
	if Key(a) != Key(b) {
		t.Errorf("%q and %q", Key(a), Key(b))
	}
	b.Requests = 8
	if Key(a) == Key(b) {
		t.Error("fewer requests are not another load")
	}
}
