package plans

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestLoadWords(t *testing.T) {
	tests := map[string]*spatev1.LoadPoint{
		"concurrency 8":          {Concurrency: 8, Requests: 80},
		"2 req/s poisson":        {Rate: 2, Arrival: "poisson"},
		"0.25 req/s constant":    {Rate: 0.25, Arrival: "constant"},
		"10000000 req/s poisson": {Rate: 1e7, Arrival: "poisson"},
	}
	for want, point := range tests {
		if got := LoadWords(point); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func drawPoint(t *rapid.T, name string) *spatev1.LoadPoint {
	few := rapid.Uint64Range(0, 2)
	l := &spatev1.LoadPoint{
		Concurrency: rapid.Uint32Range(0, 2).Draw(t, name), Rate: rapid.SampledFrom([]float64{0, 0.1, 1}).Draw(t, name),
		Arrival: rapid.SampledFrom([]string{"", "poisson", "constant"}).Draw(t, name), Requests: few.Draw(t, name),
		WarmupRequests: few.Draw(t, name),
	}
	if d := few.Draw(t, name); d > 0 {
		l.Duration = durationpb.New(time.Duration(d))
	}
	if d := few.Draw(t, name); d > 0 {
		l.WarmupDuration = durationpb.New(time.Duration(d))
	}
	return l
}

// TestLoadKey: keys are equal if and only if the points are.
func TestLoadKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawPoint(t, "a"), drawPoint(t, "b")
		if same, keys := a.String() == b.String(), LoadKey(a) == LoadKey(b); same != keys {
			t.Fatalf("%v and %v: same %v, keys same %v", a, b, same, keys)
		}
	})
}

// TestStageSeedIsPinned: a change of the hash changes the requests of every plan, so it must not come by accident.
func TestStageSeedIsPinned(t *testing.T) {
	got := stageSeed(42, "3000:150", LoadKey(&spatev1.LoadPoint{Concurrency: 8, Requests: 80}))
	const want = 2184760874789516196
	if got != want {
		t.Errorf("got %d, want %d", got, uint64(want))
	}
}

func TestStageSeeds(t *testing.T) {
	const tail = `
workloads:
  - random: {isl: 1, osl: 1}
  - random: {isl: 2, osl: 1}
loads:
  - {concurrency: [1, 2], requests: 5}
  - {rate: [1], duration: 5s}
`
	p := load(t, "name: a\nseed: 3\ntargets:\n  - {name: x, endpoints: [\"http://x\"], model: m}\n  - {name: y, endpoints: [\"http://y\"], model: n}\n"+tail)
	stages, err := p.Stages(Resources{})
	if err != nil {
		t.Fatal(err)
	}
	half := len(stages) / 2
	seen := make(map[uint64]bool)
	for i := range half {
		if stages[i].GetSeed() != stages[half+i].GetSeed() {
			t.Errorf("stage %d: the two targets are sent different requests", i)
		}
		if seen[stages[i].GetSeed()] {
			t.Errorf("stage %d has another stage's seed", i)
		}
		seen[stages[i].GetSeed()] = true
	}
	other, err := load(t, "name: b\nseed: 4\ntargets: [{name: x, endpoints: [\"http://x\"], model: m}]\n"+tail).Stages(Resources{})
	if err != nil {
		t.Fatal(err)
	}
	if seen[other[0].GetSeed()] {
		t.Error("the plan's seed makes no difference")
	}
}

func TestExpected(t *testing.T) {
	second := durationpb.New(time.Second)
	tests := map[string]struct {
		load     *spatev1.LoadPoint
		duration time.Duration // 0: not known
		requests uint64        // 0: not counted
	}{
		"closed by requests":      {&spatev1.LoadPoint{Concurrency: 1, Requests: 5, WarmupRequests: 2}, 0, 7},
		"closed by duration":      {&spatev1.LoadPoint{Concurrency: 1, Duration: second, WarmupDuration: second}, 2 * time.Second, 0},
		"closed by both":          {&spatev1.LoadPoint{Concurrency: 1, Duration: second, Requests: 9}, time.Second, 9},
		"open by requests":        {&spatev1.LoadPoint{Rate: 2, Requests: 8, WarmupRequests: 2}, 5 * time.Second, 10},
		"open, requests first":    {&spatev1.LoadPoint{Rate: 10, Requests: 5, Duration: second}, 500 * time.Millisecond, 5},
		"open, duration first":    {&spatev1.LoadPoint{Rate: 1, Requests: 5, Duration: second}, time.Second, 5},
		"open beyond a time.Time": {&spatev1.LoadPoint{Rate: 1e-300, Requests: 5}, 0, 5},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &spatev1.Stage{Load: test.load}
			if d, known := ExpectedDuration(s); d != test.duration || known != (test.duration > 0) {
				t.Errorf("duration %v, %v", d, known)
			}
			if n, counted := ExpectedRequests(s); n != test.requests || counted != (test.requests > 0) {
				t.Errorf("requests %v, %v", n, counted)
			}
		})
	}
}
