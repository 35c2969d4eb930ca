package lifecycle

import (
	"maps"
	"math"
	"slices"

	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
)

// maxWeights is the largest sum of weights that is used unchanged. A larger sum makes stripe patterns longer than many
// stages.
const maxWeights = 10_000

// weightsOf splits a stage over agents, by their own weights or capacities. If the plan names regions, each region's
// share is split over the agents of that region. The assignments of regions without an agent go to the other regions.
func weightsOf(agents []*spatev1.AgentInfo, regions map[string]float64) []uint32 {
	own := ownWeight
	if calibrated(agents) {
		own = capacity
	}
	if len(regions) == 0 {
		return ownWeights(agents, own)
	}
	inRegion := map[string]float64{}
	for _, a := range agents {
		inRegion[a.GetRegion()] += own(a)
	}
	parts := make([]float64, len(agents))
	for i, a := range agents {
		region := a.GetRegion()
		parts[i] = regions[region] * own(a) / inRegion[region]
	}
	if exact := exactly(parts); exact != nil {
		return exact
	}
	return byRegion(agents, parts)
}

// byRegion rounds parts to weights region by region, so that rounding among the agents of a region does not change the
// region's part. If the agents of a small region would get less than one each, the sum of weights is raised, up to
// schedule.MaxCycle.
func byRegion(agents []*spatev1.AgentInfo, parts []float64) []uint32 {
	members, assignments, sum := map[string][]int{}, map[string]float64{}, 0.0
	for i, a := range agents {
		region := a.GetRegion()
		members[region] = append(members[region], i)
		assignments[region] += parts[i]
		sum += parts[i]
	}
	names, total := slices.Sorted(maps.Keys(members)), float64(maxWeights)
	of := make([]float64, len(names))
	for i, name := range names {
		of[i] = assignments[name]
		total = max(total, math.Ceil(float64(len(members[name]))*sum/assignments[name]))
	}
	totals, err := schedule.Quantise(of, uint32(min(total, schedule.MaxCycle)))
	if err != nil {
		return rounded(parts)
	}
	out := make([]uint32, len(agents))
	for i, name := range names {
		own := lists.Each(members[name], func(place int) float64 { return parts[place] })
		weights, err := schedule.Quantise(own, max(totals[i], uint32(len(own))))
		if err != nil {
			return rounded(parts)
		}
		for k, place := range members[name] {
			out[place] = weights[k]
		}
	}
	return out
}

// ownWeight returns the weight that an agent was configured with. 0 means none and counts as 1.
func ownWeight(a *spatev1.AgentInfo) float64 { return float64(max(1, a.GetWeight())) }

// capacity returns the frames per second that an agent's machine handled accurately in calibration.
func capacity(a *spatev1.AgentInfo) float64 { return a.GetCapacity().GetFramesPerSecond() }

// calibrated reports whether agents are weighted by capacity: all have a capacity, and none was given a weight. In a
// mixture the weight of one agent and the frames per second of another could not be compared.
func calibrated(agents []*spatev1.AgentInfo) bool {
	return !slices.ContainsFunc(agents, func(a *spatev1.AgentInfo) bool {
		c := capacity(a)
		return a.GetWeightGiven() || !(c > 0) || math.IsInf(c, 1)
	})
}

// ownWeights returns the agents' own weights: unchanged if they are whole numbers with a sum of at most maxWeights,
// else scaled to whole numbers.
func ownWeights(agents []*spatev1.AgentInfo, own func(*spatev1.AgentInfo) float64) []uint32 {
	parts, sum, whole := make([]float64, len(agents)), 0.0, true
	for i, a := range agents {
		parts[i] = own(a)
		sum += parts[i]
		whole = whole && parts[i] == math.Trunc(parts[i])
	}
	if whole && sum <= maxWeights {
		return integers(parts)
	}
	if exact := exactly(parts); exact != nil {
		return exact
	}
	return rounded(parts)
}

// rounded returns weights that sum up to maxWeights, or to the number of agents if that is larger. If there are more
// agents than a pattern can hold, the agents reject their assignments.
func rounded(parts []float64) []uint32 {
	out, err := schedule.Quantise(parts, max(maxWeights, uint32(len(parts))))
	if err != nil {
		return integers(parts)
	}
	return out
}

func integers(parts []float64) []uint32 {
	return lists.Each(parts, func(p float64) uint32 { return uint32(max(1, math.Round(p))) })
}

// longestExact is the largest sum of weights that exactly tries.
const longestExact = 1000

// exactly returns the smallest whole numbers in the proportion of the parts, nil if their sum would exceed
// longestExact.
func exactly(parts []float64) []uint32 {
	sum := lists.Sum(parts, func(p float64) float64 { return p })
	out := make([]uint32, len(parts))
	for total := len(parts); total <= longestExact; total++ {
		if wholeAt(parts, float64(total)/sum, out) {
			return out
		}
	}
	return nil
}

// wholeAt reports whether the parts times factor are whole numbers of at least 1, and puts them into out.
func wholeAt(parts []float64, factor float64, out []uint32) bool {
	for i, p := range parts {
		whole := math.Round(p * factor)
		if whole < 1 || math.Abs(p*factor-whole) > 1e-9*whole {
			return false
		}
		out[i] = uint32(whole)
	}
	return true
}

// weightBeside returns the weight of a newcomer on the scale of the weights that the present agents were given.
func weightBeside(newcomer *spatev1.AgentInfo, present []*spatev1.AgentInfo, given []uint32) uint32 {
	own, sum, whole := ownWeight, 0.0, 0.0
	if calibrated(append([]*spatev1.AgentInfo{newcomer}, present...)) {
		own = capacity
	}
	for i, a := range present {
		sum += own(a)
		whole += float64(given[i])
	}
	return uint32(max(1, math.Round(own(newcomer)*whole/sum)))
}
