package plans

import (
	"cmp"
	"fmt"
	"maps"
	"strings"

	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// expansion makes the stages of a plan and collects the resources that are missing.
type expansion struct {
	plan      *Plan
	resources Resources
	outline   bool
	mistakes  Mistakes
}

// point is a load point as it runs, with the key of the load point as it was planned.
type point struct {
	key  string
	load *spatev1.LoadPoint
	at   string // The field of its load.
	of   *spatev1.Load
}

func (e *expansion) stages() []*spatev1.Stage {
	targets, points, frame := e.targets(), e.points(), e.frame()
	lexicons := e.lexicons(targets)
	workloads, datasets, loads := e.workloads(points)
	if len(e.mistakes) > 0 {
		return nil
	}
	var stages []*spatev1.Stage
	for t, target := range targets {
		for w, workload := range workloads {
			for i, point := range points {
				if !isFor(point.of, workload.GetName()) {
					continue
				}
				stages = append(stages, &spatev1.Stage{
					Index:        uint32(len(stages)),
					Target:       target,
					Workload:     workload,
					Load:         proto.CloneOf(loads[w][i]),
					Seed:         stageSeed(e.plan.Seed(), workload.GetName(), point.key),
					DrainTimeout: frame.GetDrainTimeout(),
					Slo:          frame.GetSlo(),
					Pause:        frame.GetPause(),
					Dataset:      datasets[w],
					Lexicon:      lexicons[t],
					OnAgentLoss:  frame.GetOnAgentLoss(),
					Regions:      frame.GetRegions(),
					Observers:    frame.GetObservers(),
					FailFast:     frame.GetFailFast(),
				})
			}
		}
	}
	return stages
}

// frame returns what all stages have in common.
func (e *expansion) frame() *spatev1.Stage {
	p := e.plan.msg
	frame := &spatev1.Stage{
		DrainTimeout: orDuration(proto.CloneOf(p.GetDrainTimeout()), defaultDrainTimeout),
		Slo:          proto.CloneOf(p.GetSlo()),
		Pause:        proto.CloneOf(p.GetPause()),
		OnAgentLoss:  cmp.Or(p.GetOnAgentLoss(), defaultOnAgentLoss),
		Regions:      maps.Clone(p.GetRegions()),
		Observers:    filledObservers(p.GetObservers()),
		FailFast:     p.FailFast == nil || p.GetFailFast(),
	}
	e.compression().frame(frame)
	return frame
}

func (e *expansion) compression() compression {
	speed, _ := e.plan.Compression()
	return compression(speed)
}

// targets returns the targets. Simulated targets have the endpoints of their started simulators.
func (e *expansion) targets() []*spatev1.Target {
	targets := e.plan.targets()
	for i, t := range targets {
		if t.GetSimulator() == nil || e.outline {
			continue
		}
		for _, url := range e.resources.Endpoints[t.GetName()] {
			t.Endpoints = append(t.Endpoints, baseURL(url))
		}
		if len(t.GetEndpoints()) == 0 {
			e.missing(fmt.Sprintf("targets[%d].simulator", i),
				"no simulator was started for target %q: run the plan with `spate run`, or give endpoints", t.GetName())
		}
	}
	return targets
}

func (e *expansion) lexicons(targets []*spatev1.Target) []*spatev1.Lexicon {
	var lexicons []*spatev1.Lexicon
	for i, t := range targets {
		lexicon := e.resources.Lexicons[t.GetName()]
		if lexicon == nil && !e.outline && strings.HasPrefix(t.GetTokenizer(), "file:") {
			e.missing(fmt.Sprintf("targets[%d].tokenizer", i),
				"the tokenizer of target %q was not read: run the plan with `spate run`", t.GetName())
		}
		lexicons = append(lexicons, lexicon)
	}
	return lexicons
}

func (e *expansion) points() []point {
	var points []point
	for i, l := range e.plan.msg.GetLoads() {
		for _, load := range loadPoints(l) {
			key := LoadKey(load)
			e.compression().load(load)
			points = append(points, point{key, load, fmt.Sprintf("loads[%d]", i), l})
		}
	}
	return points
}

// workloads returns the workloads as they run, the dataset of each, and the load points of each. The load points differ
// by workload because a replay's end depends on the rows.
func (e *expansion) workloads(
	points []point,
) (workloads []*spatev1.Workload, datasets []*spatev1.Dataset, loads [][]*spatev1.LoadPoint) {
	for i, w := range e.plan.msg.GetWorkloads() {
		w = filledWorkload(w)
		e.compression().workload(w)
		dataset := e.resources.Datasets[w.GetName()]
		if dataset == nil && !e.outline && contentFile(w) != "" {
			e.missing(fmt.Sprintf("workloads[%d].%s.path", i, contentKind(w)),
				"the file of workload %q was not read: run the plan with `spate run`", w.GetName())
		}
		var own []*spatev1.LoadPoint
		for _, point := range points {
			own = append(own, e.replayed(point, w, dataset))
		}
		workloads, datasets, loads = append(workloads, w), append(datasets, dataset), append(loads, own)
	}
	return workloads, datasets, loads
}

// replayed makes a replay without any other end stop at the end of its trace: after all rows but those of the warm-up.
// If the warm-up is given by time, or if there is a cool-down, the number of measured requests is known only when the
// trace is played; such a replay still ends with its trace.
func (e *expansion) replayed(p point, w *spatev1.Workload, d *spatev1.Dataset) *spatev1.LoadPoint {
	load := p.load
	if load.GetReplaySpeed() == 0 || d == nil || !isFor(p.of, w.GetName()) {
		return load
	}
	rows, warm := d.GetRows(), load.GetWarmupRequests()
	switch {
	case warm >= rows:
		e.missing(p.at+".warmup.requests",
			"the trace of workload %q has %d rows: a warm-up of %d requests leaves none to measure",
			w.GetName(), rows, warm)
	case load.GetRequests() > rows-warm:
		e.missing(p.at+".requests",
			"the trace of workload %q has %d rows, %d of them warm-up: at most %d requests can be measured",
			w.GetName(), rows, warm, rows-warm)
	case load.GetRequests() == 0 && load.GetDuration() == nil && !timed(load):
		load = proto.CloneOf(load)
		load.Requests = rows - warm
	}
	return load
}

// timed reports whether time decides which requests are measured.
func timed(l *spatev1.LoadPoint) bool {
	return l.GetWarmupDuration().AsDuration()+l.GetWarmupUntilSteady().AsDuration()+l.GetCooldown().AsDuration() > 0
}

func (e *expansion) missing(field, format string, args ...any) {
	e.mistakes = append(e.mistakes, e.plan.Mistake(field, fmt.Sprintf(format, args...)))
}
