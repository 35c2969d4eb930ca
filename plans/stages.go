package plans

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Simulated returns the simulated targets in the plan's order, with defaults filled in and without endpoints: what is to be
// started before the plan can be expanded.
func (p *Plan) Simulated() []*spatev1.Target {
	var targets []*spatev1.Target
	for _, t := range p.msg.GetTargets() {
		if t.GetSimulator() != nil {
			targets = append(targets, filledTarget(t, nil))
		}
	}
	return targets
}

// Stages expands the plan: by target, then workload, then load, then the load's values, with every default filled in.
// simulated holds the endpoints of simulated targets by name. The error is Mistakes: a simulated target without endpoints.
// Stages of one target share its message, those of one workload the workload's: they must not be changed.
func (p *Plan) Stages(simulated map[string][]string) ([]*spatev1.Stage, error) {
	targets, err := p.targets(simulated)
	if err != nil {
		return nil, err
	}
	points := p.points()
	drain := orDuration(proto.CloneOf(p.msg.GetDrainTimeout()), defaultDrainTimeout)
	var stages []*spatev1.Stage
	for _, target := range targets {
		for _, w := range p.msg.GetWorkloads() {
			workload := filledWorkload(w)
			for _, point := range points {
				stages = append(stages, &spatev1.Stage{
					Index:        uint32(len(stages)),
					Target:       target,
					Workload:     workload,
					Load:         proto.CloneOf(point),
					Seed:         stageSeed(p.Seed(), workload.GetName(), point),
					DrainTimeout: drain,
				})
			}
		}
	}
	return stages, nil
}

func (p *Plan) targets(simulated map[string][]string) ([]*spatev1.Target, error) {
	var targets []*spatev1.Target
	var ms Mistakes
	for i, t := range p.msg.GetTargets() {
		endpoints := t.GetEndpoints()
		if t.GetSimulator() != nil {
			endpoints = simulated[t.GetName()]
		}
		if len(endpoints) == 0 {
			ms = append(ms, p.mistake(fmt.Sprintf("targets[%d].simulator", i),
				fmt.Sprintf("no simulator was started for target %q: run the plan with `spate run`, or give endpoints", t.GetName())))
			continue
		}
		targets = append(targets, filledTarget(t, endpoints))
	}
	return targets, mistakesOrNil(ms)
}

func (p *Plan) points() []*spatev1.LoadPoint {
	var points []*spatev1.LoadPoint
	for _, l := range p.msg.GetLoads() {
		points = append(points, loadPoints(l)...)
	}
	return points
}

// loadPoints returns one point for each value of the load, in its order.
func loadPoints(l *spatev1.Load) []*spatev1.LoadPoint {
	var points []*spatev1.LoadPoint
	for _, n := range l.GetConcurrency() {
		point := loadPoint(l)
		point.Concurrency = n
		if per := l.GetRequestsPerConcurrency(); per > 0 {
			point.Requests = per * uint64(n)
		}
		points = append(points, point)
	}
	for _, rate := range l.GetRate() {
		point := loadPoint(l)
		point.Rate = rate
		point.Arrival = or(l.GetArrival(), defaultArrival)
		points = append(points, point)
	}
	return points
}

// loadPoint returns what all points of a load have in common.
func loadPoint(l *spatev1.Load) *spatev1.LoadPoint {
	return &spatev1.LoadPoint{
		Requests:       l.GetRequests(),
		Duration:       proto.CloneOf(l.GetDuration()),
		WarmupRequests: l.GetWarmup().GetRequests(),
		WarmupDuration: proto.CloneOf(l.GetWarmup().GetDuration()),
	}
}

func sweptField(l *spatev1.Load) string {
	if len(l.GetConcurrency()) > 0 {
		return "concurrency"
	}
	return "rate"
}
