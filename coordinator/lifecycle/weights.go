package lifecycle

import (
	"maps"
	"math"
	"slices"

	"github.com/spate-load/spate/agent/arrival"
)

// maxWeights is the largest sum of weights that is taken as it is: a larger one makes patterns longer than many stages.
const maxWeights = 10_000

// weightsOf splits a stage over agents: by their own weights or capacities; or, if the plan names regions, each
// region's share by those of its agents. Regions without an agent leave their share to the others.
func weightsOf(agents []*agent, regions map[string]float64) []uint32 {
	own := ownWeight
	if calibrated(agents) {
		own = capacity
	}
	if len(regions) == 0 {
		return ownWeights(agents, own)
	}
	inRegion := map[string]float64{}
	for _, a := range agents {
		inRegion[a.info.GetRegion()] += own(a)
	}
	parts := make([]float64, len(agents))
	for i, a := range agents {
		region := a.info.GetRegion()
		parts[i] = regions[region] * own(a) / inRegion[region]
	}
	if exact := exactly(parts); exact != nil {
		return exact
	}
	return byRegion(agents, parts)
}

// byRegion rounds parts region by region: each has what is its, whatever is rounded among its agents. A sum that gives
// the agents of a small region less than one each is made larger, as far as a pattern may be.
func byRegion(agents []*agent, parts []float64) []uint32 {
	members, shares, sum := map[string][]int{}, map[string]float64{}, 0.0
	for i, a := range agents {
		region := a.info.GetRegion()
		members[region], shares[region], sum = append(members[region], i), shares[region]+parts[i], sum+parts[i]
	}
	names, total := slices.Sorted(maps.Keys(members)), float64(maxWeights)
	of := make([]float64, len(names))
	for i, name := range names {
		of[i] = shares[name]
		total = max(total, math.Ceil(float64(len(members[name]))*sum/shares[name]))
	}
	totals, err := arrival.Quantise(of, uint32(min(total, arrival.MaxCycle)))
	if err != nil {
		return rounded(parts)
	}
	out := make([]uint32, len(agents))
	for i, name := range names {
		own := make([]float64, len(members[name]))
		for k, place := range members[name] {
			own[k] = parts[place]
		}
		weights, err := arrival.Quantise(own, max(totals[i], uint32(len(own))))
		if err != nil {
			return rounded(parts)
		}
		for k, place := range members[name] {
			out[place] = weights[k]
		}
	}
	return out
}

// ownWeight is what an agent says of itself. 0 is no weight: it counts as 1.
func ownWeight(a *agent) float64 { return float64(max(1, a.info.GetWeight())) }

// capacity is what an agent's machine was seen to do exactly, in frames per second.
func capacity(a *agent) float64 { return a.info.GetCapacity().GetFramesPerSecond() }

// calibrated says that agents are shared out by capacity: all have one, and nobody gave any of them a weight. A mixture
// says nothing: the weight of one and the frames per second of another cannot be compared.
func calibrated(agents []*agent) bool {
	return !slices.ContainsFunc(agents, func(a *agent) bool {
		c := capacity(a)
		return a.info.GetWeightGiven() || !(c > 0) || math.IsInf(c, 1)
	})
}

// ownWeights are the agents' own: as they are, if they are whole numbers that do not sum up to too much, else rounded.
func ownWeights(agents []*agent, own func(*agent) float64) []uint32 {
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

// rounded are weights that sum up to maxWeights. More agents than that can share one each; more than a pattern can hold
// say so themselves, by rejecting it.
func rounded(parts []float64) []uint32 {
	out, err := arrival.Quantise(parts, max(maxWeights, uint32(len(parts))))
	if err != nil {
		return integers(parts)
	}
	return out
}

func integers(parts []float64) []uint32 {
	out := make([]uint32, len(parts))
	for i, p := range parts {
		out[i] = uint32(max(1, math.Round(p)))
	}
	return out
}

// longestExact is the largest sum of weights at which parts are tried to be whole numbers.
const longestExact = 1000

// exactly returns the smallest whole numbers that stand in the proportion of the parts. Nil: only larger ones do.
func exactly(parts []float64) []uint32 {
	sum := 0.0
	for _, p := range parts {
		sum += p
	}
	out := make([]uint32, len(parts))
	for total := len(parts); total <= longestExact; total++ {
		if wholeAt(parts, float64(total)/sum, out) {
			return out
		}
	}
	return nil
}

// wholeAt says whether the parts are whole numbers once they are multiplied, and puts them into out.
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

// weightBeside is the weight of a newcomer on the scale of places that agents have.
func weightBeside(a *agent, places []*share) uint32 {
	all := []*agent{a}
	for _, p := range places {
		all = append(all, p.agent)
	}
	own, sum, given := ownWeight, 0.0, 0.0
	if calibrated(all) {
		own = capacity
	}
	for _, p := range places {
		sum += own(p.agent)
		given += float64(p.weight)
	}
	return uint32(max(1, math.Round(own(a)*given/sum)))
}
