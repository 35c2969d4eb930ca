package rules

import (
	"fmt"
	"slices"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// simulation checks that the values which a simulation multiplies stay within the limits.
func (c *checker) simulation(p *spatev1.Plan) {
	const at = "simulation.speed"
	speed := p.GetSimulation().GetSpeed()
	for i, t := range p.GetTargets() {
		if own := t.GetSimulator().GetSpeed(); speed > 1 && own*speed > maxSpeed {
			c.wrong(at, fmt.Sprintf("times the speed of targets[%d].simulator (%s) must be at most %d", i,
				loadpoint.Number(own), maxSpeed))
		}
	}
	for i, l := range p.GetLoads() {
		if rate := largestRate(l); speed > 1 && rate*speed > maxLoad {
			c.wrong(at, fmt.Sprintf("times the rate of loads[%d] (%s) must be at most %d", i,
				loadpoint.Number(rate), maxLoad))
		}
	}
}

// maxSpeed is the schema's limit of a simulation's speed.
const maxSpeed = 10_000

func largestRate(l *spatev1.Load) float64 {
	rates := append([]float64{0, l.GetRateRange().GetTo(), l.GetSearch().GetRate().GetTo(),
		l.GetFrontier().GetRate().GetTo()}, l.GetRate()...)
	for _, p := range loadpoint.RatePhases(l) {
		rates = append(rates, p.GetFrom(), p.GetTo())
	}
	return slices.Max(rates)
}
