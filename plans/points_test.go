package plans

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestRangeValues(t *testing.T) {
	tests := map[string]struct {
		r    *spatev1.Range
		want []float64
	}{
		"step":                 {&spatev1.Range{From: 2, To: 8, Step: 2}, []float64{2, 4, 6, 8}},
		"step beyond the end":  {&spatev1.Range{From: 2, To: 9, Step: 3}, []float64{2, 5, 8, 9}},
		"step larger than all": {&spatev1.Range{From: 2, To: 3, Step: 5}, []float64{2, 3}},
		"step in decimals":     {&spatev1.Range{From: 0.1, To: 0.5, Step: 0.1}, []float64{0.1, 0.2, 0.3, 0.4, 0.5}},
		"factor": {&spatev1.Range{From: 1, To: 128, Factor: 2},
			[]float64{1, 2, 4, 8, 16, 32, 64, 128}},
		"factor beyond the end":    {&spatev1.Range{From: 1, To: 5, Factor: 2}, []float64{1, 2, 4, 5}},
		"factor near its end":      {&spatev1.Range{From: 0.1, To: 0.8, Factor: 2}, []float64{0.1, 0.2, 0.4, 0.8}},
		"points":                   {&spatev1.Range{From: 1, To: 16, Points: 5}, []float64{1, 2, 4, 8, 16}},
		"points in six digits":     {&spatev1.Range{From: 1, To: 10, Points: 4}, []float64{1, 2.15443, 4.64159, 10}},
		"two points":               {&spatev1.Range{From: 3, To: 7, Points: 2}, []float64{3, 7}},
		"one value":                {&spatev1.Range{From: 3, To: 3, Step: 1}, []float64{3}},
		"points too near together": {&spatev1.Range{From: 1, To: 1.00001, Points: 5}, []float64{1, 1.00001}},
		"no way":                   {&spatev1.Range{From: 1, To: 2}, nil},
		"wrong way round":          {&spatev1.Range{From: 2, To: 1, Step: 1}, nil},
		"not there":                {nil, nil},
	}
	for name, test := range tests {
		if diff := cmp.Diff(test.want, rangeValues(test.r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestRangeValuesAlways: the values of any range are bounded, rise, and start and end at the range's ends.
func TestRangeValuesAlways(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.Float64Range(1e-6, 1e7).Draw(t, "from")
		r := &spatev1.Range{From: from, To: rapid.Float64Range(from, 1e7).Draw(t, "to")}
		switch rapid.IntRange(0, 2).Draw(t, "way") {
		case 0:
			r.Step = rapid.Float64Range(0, 1e7).Draw(t, "step")
		case 1:
			r.Factor = rapid.Float64Range(0, 100).Draw(t, "factor")
		case 2:
			r.Points = rapid.Uint32Range(0, 1024).Draw(t, "points")
		}
		values := rangeValues(r)
		if len(values) == 0 {
			return
		}
		if len(values) > maxValues+1 || values[0] != r.GetFrom() || values[len(values)-1] != r.GetTo() {
			t.Fatalf("%v: %d values, %v to %v", r, len(values), values[0], values[len(values)-1])
		}
		if !slices.IsSorted(values) || len(slices.Compact(slices.Clone(values))) != len(values) {
			t.Fatalf("%v: not rising: %v", r, values)
		}
		if n := int(r.GetPoints()); n > 1 && len(values) > n {
			t.Fatalf("%v: %d values", r, len(values))
		}
	})
}

// TestConcurrencyRangesAreWhole compares concurrencies with values rounded one by one.
func TestConcurrencyRangesAreWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &spatev1.Range{From: 1, To: float64(rapid.IntRange(1, 500).Draw(t, "to")),
			Points: rapid.Uint32Range(2, 50).Draw(t, "points")}
		var want []uint32
		for _, v := range rangeValues(r) {
			if n := uint32(math.Floor(v + 0.5)); !slices.Contains(want, n) {
				want = append(want, n)
			}
		}
		if diff := cmp.Diff(want, concurrencies(&spatev1.Load{ConcurrencyRange: r})); diff != "" {
			t.Error(diff)
		}
	})
}

// TestLoadPoints has one load of each kind, with its defaults.
func TestLoadPoints(t *testing.T) {
	tests := map[string]struct {
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
			[]string{`concurrency: 3 phases {from: 0 to: 2.5 duration {seconds: 1} shape: "linear"} phases {from: 2 to: 2 duration {seconds: 3} shape: "linear"}`},
		},
		"rate_phases": {
			`rate_phases: [{from: 9, to: 0, duration: 1s, shape: steps, steps: 4}], arrival: constant`,
			[]string{`rate: 9 arrival: "constant" split: "in_turn" phases {from: 9 to: 0 duration {seconds: 1} shape: "steps" steps: 4}`},
		},
		"replay": {`replay: {speed: 10}, duration: 1s`,
			[]string{`arrival: "trace" split: "in_turn" replay_speed: 10 duration {seconds: 1}`}},
		"plain replay": {`replay: {}`, []string{`arrival: "trace" split: "in_turn" replay_speed: 1`}},
		"not conditioned, dealt out": {
			`rate: [1], requests: 9, conditioned: false, split: in_turn`,
			[]string{`rate: 1 arrival: "poisson" split: "in_turn" requests: 9 unconditioned: true`},
		},
		"conditioned, thinned": {
			`rate: [1], requests: 9, arrival: gamma, burstiness: 2, conditioned: true, split: random`,
			[]string{`rate: 1 arrival: "gamma" burstiness: 2 split: "random" requests: 9`},
		},
		"stagger": {
			`concurrency: [4], requests: 40, stagger: 3s`, []string{`concurrency: 4 requests: 40 stagger {seconds: 3}`},
		},
		"sweep": {
			`sweep: {}, duration: 1s, warmup: {requests: 5}`,
			[]string{`arrival: "poisson" split: "random" sweep {points: 8 saturation: 512} duration {seconds: 1} warmup_requests: 5`},
		},
		"search for a rate": {
			`search: {rate: {from: 1, to: 9}, keep: {error_share: 0.01}}, requests: 50`,
			[]string{`arrival: "poisson" split: "random" requests: 50 search {rate {from: 1 to: 9} keep {error_share: 0.01} precision: 0.03 probes: 15 repeats: 1}`},
		},
		"search for a concurrency": {
			`search: {concurrency: {from: 1, to: 9}, keep: {error_share: 0.01}, precision: 0.1, probes: 3, repeats: 2}, sessions: 50`,
			[]string{`requests: 50 search {concurrency {from: 1 to: 9} keep {error_share: 0.01} precision: 0.1 probes: 3 repeats: 2}`},
		},
	}
	for name, test := range tests {
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
			if n := mostStages(p.msg.GetLoads()[0]); n < len(got) {
				t.Errorf("%d stages at most, got %d", n, len(got))
			}
		})
	}
}
