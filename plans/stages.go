package plans

import (
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Simulated returns the targets that the simulator serves, in the plan's order. Their defaults are filled in, including
// their speed in a simulation, and they have no endpoints. Simulators for them must be started before the plan can be
// expanded.
func (p *Plan) Simulated() []*spatev1.Target {
	var targets []*spatev1.Target
	for _, t := range targetsOf(p.msg) {
		if t.GetSimulator() != nil {
			targets = append(targets, t)
		}
	}
	return targets
}

// Stages expands the plan by target, then workload, then load, then the load's values and their repeats, with every
// default filled in. A sweep or a search is one stage, the template of its stages. In a simulation all times and rates
// are those of the simulation. The seeds are those of the plan without the simulation, so that the same requests are
// sent. The error is Mistakes: a missing resource, or a trace that is too short for a replay's end. Stages of one
// target share its message, and stages of one workload share the workload's; the caller must not change them.
func (p *Plan) Stages(r Resources) ([]*spatev1.Stage, error) {
	e := &expansion{plan: p.msg, resources: r}
	stages := e.stages()
	var ms Mistakes
	for _, f := range e.found {
		ms = append(ms, p.document.At(f.Path, f.Message))
	}
	return stages, ms.OrNil()
}

// Outline expands the plan as far as possible without resources: simulated targets have no endpoints, workloads from
// files have no dataset, and replays that end with their trace have no number of requests. Use it to show a plan, not
// to run it.
func (p *Plan) Outline() []*spatev1.Stage {
	return (&expansion{plan: p.msg, outline: true}).stages()
}

// Compression returns how many times faster than planned time passes, and whether the plan is a simulation.
func (p *Plan) Compression() (speed float64, simulation bool) { return speedOf(p.msg) }

// Targets returns all targets in the plan's order, with defaults filled in. Targets that the simulator serves have no
// endpoints.
func (p *Plan) Targets() []*spatev1.Target { return targetsOf(p.msg) }
