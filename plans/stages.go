package plans

import (
	"cmp"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Resources are what a plan refers to and others have prepared.
type Resources struct {
	// Endpoints of the targets that Simulated lists, by target name.
	Endpoints map[string][]string
	// Datasets of the workloads that come from files, by workload name as stages have it.
	Datasets map[string]*spatev1.Dataset
	// Lexicons are the words of the targets whose tokenizer is a file, by target name.
	Lexicons map[string]*spatev1.Lexicon
}

// Simulated returns the targets that the simulator serves, in the plan's order. Their defaults are filled in, including
// their speed in a simulation, and they have no endpoints. Simulators for them must be started before the plan can be
// expanded.
func (p *Plan) Simulated() []*spatev1.Target {
	var targets []*spatev1.Target
	for _, t := range p.targets() {
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
	e := &expansion{plan: p, resources: r}
	return e.stages(), e.mistakes.OrNil()
}

// Outline expands the plan as far as possible without resources: simulated targets have no endpoints, workloads from
// files have no dataset, and replays that end with their trace have no number of requests. Use it to show a plan, not
// to run it.
func (p *Plan) Outline() []*spatev1.Stage {
	return (&expansion{plan: p, outline: true}).stages()
}

// Compression returns how many times faster than planned time passes, and whether the plan is a simulation.
func (p *Plan) Compression() (speed float64, simulation bool) {
	if s := p.msg.GetSimulation(); s != nil {
		return cmp.Or(s.GetSpeed(), 1), true
	}
	return 1, false
}

// targets returns all targets with their defaults. Targets that the simulator serves have no endpoints.
func (p *Plan) targets() []*spatev1.Target {
	speed, simulation := p.Compression()
	var targets []*spatev1.Target
	for _, t := range p.msg.GetTargets() {
		var filled *spatev1.Target
		if simulation || len(t.GetEndpoints()) == 0 {
			filled = simulatedTarget(t)
		} else {
			filled = filledTarget(t)
		}
		if simulation {
			withoutSecrets(filled)
		}
		compression(speed).target(filled)
		targets = append(targets, filled)
	}
	return targets
}

// Reached returns all targets in the plan's order, with defaults filled in. Targets that the simulator serves have no
// endpoints.
func (p *Plan) Reached() []*spatev1.Target { return p.targets() }
