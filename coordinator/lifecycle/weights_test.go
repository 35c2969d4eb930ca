package lifecycle

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// agents returns its arguments.
func agents(infos ...*spatev1.AgentInfo) []*spatev1.AgentInfo { return infos }

func TestWeightsOfRegions(t *testing.T) {
	eu, us := &spatev1.AgentInfo{Region: "eu"}, &spatev1.AgentInfo{Region: "us"}
	strong := &spatev1.AgentInfo{Region: "us", Weight: 3}
	for name, tc := range map[string]struct {
		agents  []*spatev1.AgentInfo
		regions map[string]float64
		want    []uint32
	}{
		"none":            {agents(eu, strong), nil, []uint32{1, 3}},
		"one each":        {agents(eu, us), map[string]float64{"eu": 0.6, "us": 0.4}, []uint32{3, 2}},
		"any unit":        {agents(eu, us), map[string]float64{"eu": 60, "us": 40}, []uint32{3, 2}},
		"thirds":          {agents(eu, eu, eu, us), map[string]float64{"eu": 1, "us": 1}, []uint32{1, 1, 1, 3}},
		"by weight":       {agents(eu, us, strong), map[string]float64{"eu": 0.5, "us": 0.5}, []uint32{4, 1, 3}},
		"one is not here": {agents(us, strong), map[string]float64{"eu": 0.5, "us": 0.5}, []uint32{1, 3}},
		"not exact":       {agents(eu, us), map[string]float64{"eu": 1, "us": math.Pi}, []uint32{2415, 7585}},
	} {
		if got := weightsOf(tc.agents, tc.regions); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// Capacities count only if all agents have one and no agent was given a weight.
func TestWeightsOfCapacities(t *testing.T) {
	of := func(frames float64) *spatev1.AgentInfo {
		return &spatev1.AgentInfo{Region: "eu", Weight: 1,
			Capacity: &spatev1.Capacity{Streams: 10, FramesPerSecond: frames}}
	}
	given := func(frames float64, weight uint32) *spatev1.AgentInfo {
		info := of(frames)
		info.Weight, info.WeightGiven = weight, true
		return info
	}
	us := of(30_000)
	us.Region = "us"
	for name, tc := range map[string]struct {
		agents  []*spatev1.AgentInfo
		regions map[string]float64
		want    []uint32
	}{
		"exact":                    {agents(of(20_000), of(50_000)), nil, []uint32{2, 5}},
		"equal":                    {agents(of(47_620.3), of(47_620.3)), nil, []uint32{1, 1}},
		"small numbers, fractions": {agents(of(0.5), of(1)), nil, []uint32{1, 2}},
		"not exact":                {agents(of(1000), of(1000*math.Pi)), nil, []uint32{2415, 7585}},
		"one has none":             {agents(of(20_000), &spatev1.AgentInfo{Weight: 3}), nil, []uint32{1, 3}},
		"one found nothing safe":   {agents(of(20_000), of(0)), nil, []uint32{1, 1}},
		"one is impossible":        {agents(of(20_000), of(math.Inf(1))), nil, []uint32{1, 1}},
		"one is not a number":      {agents(of(20_000), of(math.NaN())), nil, []uint32{1, 1}},
		"one was given":            {agents(of(20_000), given(50_000, 4)), nil, []uint32{1, 4}},
		"in regions": {agents(of(10_000), of(20_000), us), map[string]float64{"eu": 0.5, "us": 0.5},
			[]uint32{1, 2, 3}},
	} {
		if got := weightsOf(tc.agents, tc.regions); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// A newcomer is weighted like the present agents, if possible.
func TestWeightBesideCapacities(t *testing.T) {
	capable := func(frames float64) *spatev1.AgentInfo {
		return &spatev1.AgentInfo{Weight: 1, Capacity: &spatev1.Capacity{FramesPerSecond: frames}}
	}
	present, given := agents(capable(20_000), capable(50_000)), []uint32{2, 5}
	for name, tc := range map[string]struct {
		newcomer *spatev1.AgentInfo
		want     uint32
	}{
		"calibrated":     {capable(100_000), 10},
		"slow":           {capable(100), 1},
		"not calibrated": {&spatev1.AgentInfo{Weight: 2}, 7},
	} {
		if got := weightBeside(tc.newcomer, present, given); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

// Each region has its share of the load to a thousandth, whatever agents it has.
func TestRegionsHaveTheirShares(t *testing.T) {
	weights := rapid.IntRange(0, 8)
	rapid.Check(t, func(t *rapid.T) {
		regions, infos := map[string]float64{}, []*spatev1.AgentInfo{}
		for _, region := range []string{"eu", "us", "asia"}[:rapid.IntRange(1, 3).Draw(t, "regions")] {
			regions[region] = rapid.Float64Range(0.1, 10).Draw(t, "share")
			for range rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, 700)).Draw(t, "agents") {
				infos = append(infos, &spatev1.AgentInfo{Region: region, Weight: uint32(weights.Draw(t, "weight"))})
			}
		}
		sum, whole, have := 0.0, 0.0, map[string]float64{}
		for i, w := range weightsOf(infos, regions) {
			if w == 0 {
				t.Fatalf("agent %d has no weight", i)
			}
			have[infos[i].GetRegion()] += float64(w)
			sum += float64(w)
		}
		for _, share := range regions {
			whole += share
		}
		for region, share := range regions {
			if math.Abs(have[region]/sum-share/whole) > 0.001 {
				t.Fatalf("%s has %v of the load, want %v", region, have[region]/sum, share/whole)
			}
		}
	})
}
