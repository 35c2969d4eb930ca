package plans

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// TestStageSeedIsPinned: a change of the hash changes the requests of every plan, so it must not happen by accident.
func TestStageSeedIsPinned(t *testing.T) {
	got := stageSeed(42, "3000:150", loadpoint.Key(&spatev1.LoadPoint{Concurrency: 8, Requests: 80}))
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
	seen := make(map[uint64]bool)
	for i := 0; i < len(stages); i += 2 {
		if stages[i].GetSeed() != stages[i+1].GetSeed() {
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
		t.Error("the plan's seed has no effect")
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
		"open, held back": {&spatev1.LoadPoint{Rate: 2, Requests: 8, MaxInFlight: 3}, 0, 8},
		"open, held back for a time": {&spatev1.LoadPoint{Rate: 2, Duration: second, MaxInFlight: 3},
			time.Second, 0},
		"replay, held back":       {&spatev1.LoadPoint{ReplaySpeed: 2, Requests: 100, MaxInFlight: 3}, 0, 100},
		"open beyond a time.Time": {&spatev1.LoadPoint{Rate: 1e-300, Requests: 5}, 0, 5},
		"with cool-down": {&spatev1.LoadPoint{Rate: 2, Requests: 8, WarmupRequests: 2,
			Cooldown: second}, 6 * time.Second, 10},
		"staggered": {&spatev1.LoadPoint{Concurrency: 1, Duration: second,
			Stagger: durationpb.New(2 * time.Second), WarmupDuration: second}, 3 * time.Second, 0},
		"until steady": {&spatev1.LoadPoint{Concurrency: 1, Duration: second,
			WarmupUntilSteady: second}, 2 * time.Second, 0},
		"warm-up by time, end by requests": {&spatev1.LoadPoint{Rate: 2, Requests: 8, WarmupDuration: second},
			5 * time.Second, 8},
		"phases": {&spatev1.LoadPoint{Rate: 5, Phases: []*spatev1.Phase{{Duration: second}, {Duration: second}}},
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
			t.Errorf("%s: got %+v, want %+v", loadpoint.Words(s.GetLoad()), got, want[i])
		}
	}
	replay := load(t, withFiles).Outline()[0]
	if got := EstimateOf(replay); got.Timed || got.Counted {
		t.Errorf("nothing is known of a trace that was not read: %+v", got)
	}
}

// loadPoints are loads of plans and the load points that they become.
var loadPoints = map[string]struct {
	load string
	want []string
}{
	"lists and repeats": {
		`concurrency: [4, 2], requests_per_concurrency: 10, repeats: 2`,
		[]string{`concurrency: 4 requests: 40`, `concurrency: 4 requests: 40 repeat: 1`,
			`concurrency: 2 requests: 20`, `concurrency: 2 requests: 20 repeat: 1`},
	},
	"concurrency_range": {
		`concurrency_range: {from: 1, to: 3, points: 9}, duration: 5s`,
		[]string{`concurrency: 1 duration {seconds: 5}`, `concurrency: 2 duration {seconds: 5}`,
			`concurrency: 3 duration {seconds: 5}`},
	},
	"rate_range, gamma": {
		`rate_range: {from: 2, to: 4, step: 2}, requests: 7, arrival: gamma, burstiness: 0.5`,
		[]string{`rate: 2 arrival: "gamma" burstiness: 0.5 requests: 7 split: "in_turn"`,
			`rate: 4 arrival: "gamma" burstiness: 0.5 requests: 7 split: "in_turn"`},
	},
	"think time, warm-up, cool-down, abort, until": {
		`concurrency: [1], duration: 9s, think_time: {mean: 2s}, warmup: {until_steady: 8s}, cooldown: 7s, abort: {error_share: 0}, until: {metric: ttft, percentile: 99}`,
		[]string{`concurrency: 1 duration {seconds: 9} think_time {mean {seconds: 2} distribution: "constant"} warmup_until_steady {seconds: 8}
			cooldown {seconds: 7} abort {error_share: 0 after_requests: 20} until {metric: "ttft" percentile: 99 within: 0.05 confidence: 0.95}`},
	},
	"abort by time alone": {
		`rate: [1], duration: 9s, abort: {duration: 1m}`,
		[]string{`rate: 1 arrival: "poisson" split: "random" duration {seconds: 9} abort {duration {seconds: 60}}`},
	},
	"concurrency_phases": {
		`concurrency_phases: [{to: 2.5, duration: 1s}, {from: 2, duration: 3s}]`,
		[]string{`concurrency: 3 phases {from: 0 to: 2.5 duration {seconds: 1}} phases {from: 2 to: 2 duration {seconds: 3}}`},
	},
	"rate_phases": {
		`rate_phases: [{from: 9, to: 0, duration: 1s}], arrival: constant`,
		[]string{`rate: 9 arrival: "constant" split: "in_turn" phases {from: 9 to: 0 duration {seconds: 1}}`},
	},
	"replay": {`replay: {speed: 10}, duration: 1s`,
		[]string{`arrival: "trace" split: "in_turn" replay_speed: 10 duration {seconds: 1}`}},
	"plain replay": {`replay: {}`, []string{`arrival: "trace" split: "in_turn" replay_speed: 1`}},
	"stagger": {
		`concurrency: [4], requests: 40, stagger: 3s`, []string{`concurrency: 4 requests: 40 stagger {seconds: 3}`},
	},
	"sweep": {
		`sweep: {}, duration: 1s, warmup: {requests: 5}`,
		[]string{`arrival: "poisson" split: "random" sweep {points: 8 saturation: 512} duration {seconds: 1} warmup_requests: 5`},
	},
	"search for a rate": {
		`search: {rate: {from: 1, to: 9}, keep: {error_share: 0.01}}, requests: 50`,
		[]string{`arrival: "poisson" split: "random" requests: 50 search {rate {from: 1 to: 9} keep {error_share: 0.01} precision: 0.03 probes: 50 repeats: 1}`},
	},
	"search for a concurrency": {
		`search: {concurrency: {from: 1, to: 9}, keep: {error_share: 0.01}, precision: 0.1, probes: 3, repeats: 2}, sessions: 50`,
		[]string{`requests: 50 search {concurrency {from: 1 to: 9} keep {error_share: 0.01} precision: 0.1 probes: 3 repeats: 2}`},
	},
}

// TestLoadPoints has one load of each kind, with its defaults.
func TestLoadPoints(t *testing.T) {
	for name, test := range loadPoints {
		t.Run(name, func(t *testing.T) {
			workload := "random: {isl: 1, osl: 1}"
			switch {
			case strings.Contains(test.load, "replay"):
				workload = "azure: {path: a.csv}"
			case strings.Contains(test.load, "sessions"):
				workload = "sessions: {turns: 2, isl: 1, osl: 1}"
			}
			p := load(t, fmt.Sprintf("name: a\ntargets: [{name: t, simulator: {}}]\nworkloads: [{%s}]\nloads: [{%s}]",
				workload, test.load))
			var want, got []*spatev1.LoadPoint
			for _, text := range test.want {
				point := &spatev1.LoadPoint{}
				if err := prototext.Unmarshal([]byte(text), point); err != nil {
					t.Fatal(err)
				}
				want = append(want, point)
			}
			for _, s := range p.Outline() {
				got = append(got, s.GetLoad())
			}
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if n := loadpoint.MostStages(p.msg.GetLoads()[0]); n < len(got) {
				t.Errorf("%d stages at most, got %d", n, len(got))
			}
		})
	}
}
