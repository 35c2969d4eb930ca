package plans

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
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
		"2 req/s gamma 0.5":      {Rate: 2, Arrival: "gamma", Burstiness: 0.5},
		"replay":                 {Arrival: "trace", ReplaySpeed: 1},
		"replay x10":             {Arrival: "trace", ReplaySpeed: 10},
		"sweep of 8 rates":       {Arrival: "poisson", Sweep: &spatev1.Sweep{Points: 8}},

		"search 1 to 9 req/s poisson": {Arrival: "poisson",
			Search: &spatev1.Search{Rate: &spatev1.Bounds{From: 1, To: 9}}},
		"search concurrency 1 to 9":      {Search: &spatev1.Search{Concurrency: &spatev1.Bounds{From: 1, To: 9}}},
		"1 to 20 to 5 req/s constant":    {Rate: 20, Arrival: "constant", Phases: phases(1, 20, 20, 20, 20, 5)},
		"concurrency 1 to 20":            {Concurrency: 20, Phases: phases(1, 20)},
		"concurrency 5 phases up to 9":   {Concurrency: 9, Phases: phases(1, 2, 2, 3, 3, 4, 4, 5, 5, 9)},
		"2 req/s poisson, unconditioned": {Rate: 2, Arrival: "poisson", Split: "random", Unconditioned: true},
		"2 req/s poisson, split in turn": {Rate: 2, Arrival: "poisson", Split: "in_turn"},
		"2 req/s constant, split random": {Rate: 2, Arrival: "constant", Split: "random"},
		"concurrency 8, stagger 1.5s":    {Concurrency: 8, Stagger: durationpb.New(1500 * time.Millisecond)},
		"concurrency 8, think time 2s, repeat 1": {Concurrency: 8, Repeat: 1,
			ThinkTime: &spatev1.ThinkTime{Mean: durationpb.New(2 * time.Second)}},
	}
	for want, point := range tests {
		if got := LoadWords(point); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// phases returns phases of one second each: from the first value to the second, from the third to the fourth, and so
// on.
func phases(values ...float64) []*spatev1.Phase {
	var list []*spatev1.Phase
	for i := 0; i < len(values); i += 2 {
		list = append(list, &spatev1.Phase{From: values[i], To: proto.Float64(values[i+1]),
			Duration: durationpb.New(time.Second)})
	}
	return list
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
	if rapid.Bool().Draw(t, name) {
		l.Burstiness, l.Repeat = float64(few.Draw(t, name)), uint32(few.Draw(t, name))
		for range few.Draw(t, name) {
			l.Phases = append(l.Phases, &spatev1.Phase{From: float64(few.Draw(t, name)),
				Shape: rapid.SampledFrom([]string{"", "a", `a" b=`}).Draw(t, name)})
		}
		if few.Draw(t, name) == 1 {
			l.Abort = &spatev1.Abort{ErrorShare: proto.Float64(float64(few.Draw(t, name)))}
		}
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

// TestSplitIsNoPartOfTheLoad: the requests are the same whichever agent sends them.
func TestSplitIsNoPartOfTheLoad(t *testing.T) {
	a := &spatev1.LoadPoint{Rate: 2, Arrival: "poisson", Requests: 9, Split: "random"}
	b := proto.CloneOf(a)
	b.Split = "in_turn"
	if LoadKey(a) != LoadKey(b) {
		t.Errorf("%q and %q", LoadKey(a), LoadKey(b))
	}
	b.Unconditioned = true
	if LoadKey(a) == LoadKey(b) {
		t.Error("other times are not another load")
	}
}

// TestStageSeedIsPinned: a change of the hash changes the requests of every plan, so it must not happen by accident.
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
	other, err := load(t, "name: b\nseed: 4\ntargets: [{name: x, endpoints: [\"http://x\"], model: m}]\n"+
		tail).Stages(Resources{})
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
		"closed by requests": {&spatev1.LoadPoint{Concurrency: 1, Requests: 5, WarmupRequests: 2}, 0, 7},
		"closed by duration": {&spatev1.LoadPoint{Concurrency: 1, Duration: second,
			WarmupDuration: second}, 2 * time.Second, 0},
		"closed by both": {&spatev1.LoadPoint{Concurrency: 1, Duration: second, Requests: 9},
			time.Second, 9},
		"open by requests": {&spatev1.LoadPoint{Rate: 2, Requests: 8, WarmupRequests: 2},
			5 * time.Second, 10},
		"open, requests first": {&spatev1.LoadPoint{Rate: 10, Requests: 5, Duration: second},
			500 * time.Millisecond, 5},
		"open, duration first": {&spatev1.LoadPoint{Rate: 1, Requests: 5, Duration: second},
			time.Second, 5},
		"open beyond a time.Time": {&spatev1.LoadPoint{Rate: 1e-300, Requests: 5}, 0, 5},
		"with cool-down": {&spatev1.LoadPoint{Rate: 2, Requests: 8, WarmupRequests: 2,
			Cooldown: second}, 6 * time.Second, 10},
		"staggered": {&spatev1.LoadPoint{Concurrency: 1, Duration: second,
			Stagger: durationpb.New(2 * time.Second), WarmupDuration: second}, 3 * time.Second, 0},
		"until steady": {&spatev1.LoadPoint{Concurrency: 1, Duration: second,
			WarmupUntilSteady: second}, 2 * time.Second, 0},
		"warm-up by time, end by requests": {&spatev1.LoadPoint{Rate: 2, Requests: 8, WarmupDuration: second},
			5 * time.Second, 8},
		"phases": {&spatev1.LoadPoint{Rate: 5, Phases: phases(1, 5, 5, 1)},
			2 * time.Second, 0},
		"aborted": {&spatev1.LoadPoint{Concurrency: 1, Requests: 5,
			Abort: &spatev1.Abort{Duration: second}}, time.Second, 5},
		"aborted late": {&spatev1.LoadPoint{Rate: 10, Requests: 5,
			Abort: &spatev1.Abort{Duration: second}}, 500 * time.Millisecond, 5},
		"whole replay": {&spatev1.LoadPoint{ReplaySpeed: 2, Requests: 100}, 50 * time.Second, 100},
		"part of a replay": {&spatev1.LoadPoint{ReplaySpeed: 1, Requests: 20, WarmupRequests: 5},
			25 * time.Second, 25},
		"replay by duration": {&spatev1.LoadPoint{ReplaySpeed: 1, Duration: second}, time.Second, 0},
		"trace shorter than that": {&spatev1.LoadPoint{ReplaySpeed: 1000, Duration: second},
			100 * time.Millisecond, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &spatev1.Stage{Load: test.load,
				Dataset: &spatev1.Dataset{Rows: 100, Span: durationpb.New(100 * time.Second)}}
			if d, known := ExpectedDuration(s); d != test.duration || known != (test.duration > 0) {
				t.Errorf("duration %v, %v", d, known)
			}
			if n, counted := ExpectedRequests(s); n != test.requests || counted != (test.requests > 0) {
				t.Errorf("requests %v, %v", n, counted)
			}
		})
	}
}

func TestEstimate(t *testing.T) {
	stages := load(t, `
name: estimates
targets: [{name: t, endpoints: ["http://h"], model: m}]
workloads: [{random: {isl: 1, osl: 1}}]
loads:
  - {sweep: {points: 5}, duration: 10s, warmup: {duration: 2s}}
  - {search: {rate: {from: 1, to: 9}, keep: {error_share: 0}, probes: 9, repeats: 3}, requests: 100}
  - {rate: [2], requests: 100}
`).Outline()
	want := []Estimate{
		{Stages: 7, Time: 12 * time.Second, Timed: true},
		{Stages: 11, Requests: 100, Counted: true},
		{Stages: 1, Requests: 100, Counted: true, Time: 50 * time.Second, Timed: true},
	}
	for i, s := range stages {
		if got := EstimateOf(s); got != want[i] {
			t.Errorf("%s: got %+v, want %+v", LoadWords(s.GetLoad()), got, want[i])
		}
	}
	replay := load(t, withFiles).Outline()[0]
	if got := EstimateOf(replay); got.Timed || got.Counted {
		t.Errorf("nothing is known of a trace that was not read: %+v", got)
	}
}
