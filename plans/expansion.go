package plans

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/document"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Resources are what a plan refers to and others have prepared.
type Resources struct {
	// Endpoints of the targets that Simulated lists, by target name.
	Endpoints map[string][]string
	// Datasets of the workloads that come from files, by their full names (content.FullName).
	Datasets map[string]*spatev1.Dataset
	// Lexicons are the words of the targets whose tokenizer is a file, by target name.
	Lexicons map[string]*spatev1.Lexicon
}

// speedOf returns how many times faster than planned time passes, and whether the plan is a simulation.
func speedOf(plan *spatev1.Plan) (speed float64, simulation bool) {
	if s := plan.GetSimulation(); s != nil {
		return cmp.Or(s.GetSpeed(), 1), true
	}
	return 1, false
}

// targetsOf returns all targets of a plan with their defaults. Targets that the simulator serves have no endpoints, nor
// have those that must be looked up in a cluster.
func targetsOf(plan *spatev1.Plan) []*spatev1.Target {
	speed, simulation := speedOf(plan)
	var targets []*spatev1.Target
	for _, t := range plan.GetTargets() {
		var filled *spatev1.Target
		if simulation || len(t.GetEndpoints()) == 0 && t.GetKubernetes().GetService() == "" && t.GetServer() == nil {
			filled = defaults.SimulatedTarget(t)
		} else {
			filled = defaults.Target(t)
		}
		if simulation {
			defaults.WithoutSecrets(filled)
		}
		factor(speed).target(filled)
		targets = append(targets, filled)
	}
	return targets
}

// expansion makes the stages of a plan and collects the resources that are missing.
type expansion struct {
	plan      *spatev1.Plan
	resources Resources
	outline   bool
	found     []document.Finding
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
	if len(e.found) > 0 {
		return nil
	}
	shared := make(map[[2]int]*spatev1.Stage) // what the stages of a target and a workload have in common
	var stages []*spatev1.Stage
	for _, next := range e.order(targets, workloads, points) {
		target, workload := targets[next.target], workloads[next.workload]
		key := [2]int{next.target, next.workload}
		if _, made := shared[key]; !made {
			seen, slo := defaults.Limits(target, defaults.AskedParts(target, workload), frame.GetSlo())
			shared[key] = &spatev1.Stage{Target: defaults.Asked(target, workload), Workload: seen, Slo: slo}
		}
		stages = append(stages, &spatev1.Stage{
			Index:        uint32(len(stages)),
			Target:       shared[key].GetTarget(),
			Workload:     shared[key].GetWorkload(),
			Load:         proto.CloneOf(loads[next.workload][next.point]),
			Seed:         stageSeed(e.plan.GetSeed(), workload.GetName(), points[next.point].key),
			DrainTimeout: frame.GetDrainTimeout(),
			Slo:          shared[key].GetSlo(),
			Pause:        frame.GetPause(),
			Dataset:      datasets[next.workload].whole,
			PartDatasets: datasets[next.workload].parts,
			Lexicon:      lexicons[next.target],
			OnAgentLoss:  frame.GetOnAgentLoss(),
			Regions:      frame.GetRegions(),
			FailFast:     frame.GetFailFast(),
			Agents:       frame.GetAgents(),
			Canaries:     frame.GetCanaries(),
			Block:        next.block,
		})
	}
	return stages
}

// place is where a stage stands in the matrix of a plan, and the number of the start of its target's server.
type place struct {
	target, workload, point int
	block                   uint32
}

// order returns the places of all stages in the order in which they run. In turns, the targets of a workload and a load
// point run forward and backward by turns, A B B A, over repeats and loads: a steady change over time then adds as much
// to one target as to another. If targets have servers, whole blocks of stages take turns.
func (e *expansion) order(targets []*spatev1.Target, workloads []*spatev1.Workload, points []point) (all []place) {
	round := 0
	for w, workload := range workloads {
		for i, point := range points {
			var turn []place
			for t, target := range targets {
				if loadpoint.IsFor(point.of, workload.GetName()) && loadpoint.IsForTarget(point.of, target.GetName()) {
					turn = append(turn, place{target: t, workload: w, point: i})
				}
			}
			if len(turn) > 1 {
				if round%2 == 1 {
					slices.Reverse(turn)
				}
				round++
			}
			all = append(all, turn...)
		}
	}
	repeat := func(p place) int { return int(points[p.point].load.GetRepeat()) }
	switch {
	case e.plan.GetOrder() == "target": // one after the other, instead of in turns
		repeat = func(place) int { return 0 }
		fallthrough
	case slices.ContainsFunc(targets, func(t *spatev1.Target) bool { return t.GetServer() != nil }):
		inBlocks(all, targets, repeat)
	}
	return all
}

// inBlocks sorts places so that each target has one block for each repeat, in turns, and numbers the blocks of those
// with servers.
func inBlocks(all []place, targets []*spatev1.Target, repeat func(place) int) {
	slices.SortStableFunc(all, func(a, b place) int {
		forward := 1 - repeat(a)%2*2
		return cmp.Or(cmp.Compare(repeat(a), repeat(b)), forward*cmp.Compare(a.target, b.target))
	})
	block := uint32(0)
	for i, p := range all {
		if i == 0 || all[i-1].target != p.target || repeat(all[i-1]) != repeat(p) {
			block++
		}
		if targets[p.target].GetServer() != nil {
			all[i].block = block
		}
	}
}

// frame returns what all stages have in common.
func (e *expansion) frame() *spatev1.Stage {
	p := e.plan
	frame := &spatev1.Stage{
		DrainTimeout: cmp.Or(proto.CloneOf(p.GetDrainTimeout()), durationpb.New(defaults.DrainTimeout)),
		Slo:          proto.CloneOf(p.GetSlo()),
		Pause:        proto.CloneOf(p.GetPause()),
		OnAgentLoss:  cmp.Or(p.GetOnAgentLoss(), defaults.OnAgentLoss),
		Regions:      maps.Clone(p.GetRegions()),
		FailFast:     p.FailFast == nil || p.GetFailFast(),
		Agents:       proto.CloneOf(p.GetAgents()),
		Canaries:     defaults.Filled(p.GetCanaries()),
	}
	e.compression().shorten(frame)
	return frame
}

func (e *expansion) compression() factor {
	speed, _ := speedOf(e.plan)
	return factor(speed)
}

// targets returns the targets. Simulated targets have the endpoints of their started simulators.
func (e *expansion) targets() []*spatev1.Target {
	targets := targetsOf(e.plan)
	for i, t := range targets {
		if t.GetServer() != nil { // what it runs, and with which environment, concerns no agent
			t.Server = &spatev1.Server{OnStartFailure: t.GetServer().GetOnStartFailure()}
		}
		if t.GetSimulator() == nil || e.outline {
			continue
		}
		for _, url := range e.resources.Endpoints[t.GetName()] {
			t.Endpoints = append(t.Endpoints, naming.BaseURL(url))
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
	for i, l := range e.plan.GetLoads() {
		for _, load := range loadpoint.Of(l) {
			key := loadpoint.Key(load)
			e.compression().load(load)
			points = append(points, point{key, load, fmt.Sprintf("loads[%d]", i), l})
		}
	}
	return points
}

// rowsOf are the rows of a workload: of the workload itself, or of the parts of a mixture.
type rowsOf struct {
	whole *spatev1.Dataset
	parts []*spatev1.Dataset
}

// trace returns the rows as one trace, with their number and span. Nil: a file was not read. The span of a mixture is
// that of its longest trace, nil if a trace has no times.
func (r rowsOf) trace() *spatev1.Dataset {
	if r.parts == nil {
		return r.whole
	}
	all := &spatev1.Dataset{Span: durationpb.New(0)}
	for _, part := range r.parts {
		switch {
		case part.GetRows() == 0:
			return nil
		case part.GetSpan() == nil:
			all.Span = nil
		case all.Span != nil && part.GetSpan().AsDuration() > all.Span.AsDuration():
			all.Span = part.GetSpan()
		}
		all.Rows += part.GetRows()
	}
	return all
}

// workloads returns the workloads as they run, the datasets of each, and the load points of each. The load points
// differ by workload because a replay's end depends on the rows.
func (e *expansion) workloads(
	points []point,
) (workloads []*spatev1.Workload, rows []rowsOf, loads [][]*spatev1.LoadPoint) {
	for i, w := range e.plan.GetWorkloads() {
		w = defaults.Workload(w)
		e.compression().workload(w)
		of := e.datasets(i, w)
		trace := of.trace()
		own := lists.Each(points, func(point point) *spatev1.LoadPoint { return e.replayed(point, w, trace) })
		workloads, rows, loads = append(workloads, w), append(rows, of), append(loads, own)
	}
	return workloads, rows, loads
}

// datasets returns the rows of the workload with an index.
func (e *expansion) datasets(index int, w *spatev1.Workload) (of rowsOf) {
	for i, part := range content.Parts(w) {
		name := content.FullName(w, part)
		dataset := e.resources.Datasets[name]
		if path, field := content.Path(part); dataset == nil && !e.outline && path != "" {
			e.missing(partField(index, w, i)+"."+field,
				"the file of workload %q was not read: run the plan with `spate run`", name)
		}
		if w.GetMix() == nil {
			return rowsOf{whole: dataset}
		}
		of.parts = append(of.parts, cmp.Or(dataset, &spatev1.Dataset{}))
	}
	return of
}

// partField returns the field of one of the parts (content.Parts) of the workload with an index.
func partField(index int, w *spatev1.Workload, part int) string {
	if w.GetMix() == nil {
		return fmt.Sprintf("workloads[%d]", index)
	}
	return fmt.Sprintf("workloads[%d].mix.parts[%d].workload", index, part)
}

// replayed makes a replay without any other end stop at the end of its trace: after all rows but those of the warm-up.
// If the warm-up is given by time, or if there is a cool-down, the number of measured requests is known only when the
// trace is played; such a replay still ends with its trace.
func (e *expansion) replayed(p point, w *spatev1.Workload, d *spatev1.Dataset) *spatev1.LoadPoint {
	load := p.load
	if load.GetReplaySpeed() == 0 || d == nil || !loadpoint.IsFor(p.of, w.GetName()) {
		return load
	}
	rows, warm := d.GetRows(), load.GetWarmupRequests()
	switch {
	case d.GetSpan() == nil:
		e.missing(p.at+".replay", "the trace of workload %q has no timestamps: give a rate or a concurrency", w.GetName())
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
	e.found = append(e.found, document.Finding{Path: field, Message: fmt.Sprintf(format, args...)})
}

// Simulated returns the targets that the simulator serves, in the plan's order. Their defaults are filled in, including
// their speed in a simulation, and they have no endpoints. Simulators for them must be started before the plan can be
// expanded.
func (p *Plan) Simulated() []*spatev1.Target {
	return lists.Where(targetsOf(p.msg), func(t *spatev1.Target) bool { return t.GetSimulator() != nil })
}

// Adapters returns the names of the models that parts of mixtures name in place of their target's.
func (p *Plan) Adapters() (names []string) {
	for _, w := range p.msg.GetWorkloads() {
		for _, part := range w.GetMix().GetParts() {
			names = append(names, content.Models(part)...)
		}
	}
	return names
}

// Stages expands the plan by workload, then load, then the load's values and their repeats, and for each of these the
// targets, in turns; or by target first, if the plan asks for that order. Every default is filled in. A template is one
// stage. In a simulation all times and rates are those of the simulation. The
// seeds are those of the plan without the simulation, so that the same requests are sent. The error is Mistakes: a
// missing resource, or a trace that is too short for a replay's end. Stages of one target and workload share the
// messages of both; the caller must not change them.
func (p *Plan) Stages(r Resources) ([]*spatev1.Stage, error) {
	e := &expansion{plan: p.msg, resources: r}
	stages := e.stages()
	at := func(f document.Finding) Mistake { return p.document.At(f.Path, f.Message) }
	return stages, Mistakes(lists.Each(e.found, at)).OrNil()
}

// Outline expands the plan as far as possible without resources: simulated targets have no endpoints, workloads from
// files have no dataset, and replays that end with their trace have no number of requests. Use it to show a plan, not
// to run it.
func (p *Plan) Outline() []*spatev1.Stage { return (&expansion{plan: p.msg, outline: true}).stages() }

// Compression returns how many times faster than planned time passes, and whether the plan is a simulation.
func (p *Plan) Compression() (speed float64, simulation bool) { return speedOf(p.msg) }

// Targets returns all targets in the plan's order, with defaults filled in. Targets that the simulator serves have no
// endpoints, nor have those that must be looked up in a cluster.
func (p *Plan) Targets() []*spatev1.Target { return targetsOf(p.msg) }

// stageSeed returns a pure hash of what a stage's requests may depend on. The target and the stage's place are left out
// on purpose: two targets are sent the same requests. The text at the front separates it from other uses of the same
// hash.
func stageSeed(planSeed uint64, workload, loadKey string) uint64 {
	buffer := []byte("spate stage seed 1")
	buffer = binary.BigEndian.AppendUint64(buffer, planSeed)
	buffer = binary.BigEndian.AppendUint64(buffer, uint64(len(workload)))
	buffer = append(buffer, workload...)
	return hashed(append(buffer, loadKey...))
}

// ProbeSeed returns the seed of a stage that a template becomes: a pure hash of the template's seed, the stage's load
// and its number. The number of the series is left out on purpose, like the target in a stage's seed: two targets that
// are probed at the same loads are sent the same requests.
func ProbeSeed(template *spatev1.Stage, load *spatev1.LoadPoint, probe *spatev1.Probe) uint64 {
	buffer := []byte("spate probe seed 1")
	buffer = binary.BigEndian.AppendUint64(buffer, template.GetSeed())
	buffer = binary.BigEndian.AppendUint32(buffer, probe.GetNumber())
	return hashed(append(buffer, loadpoint.Key(load)...))
}

func hashed(buffer []byte) uint64 {
	sum := sha256.Sum256(buffer)
	return binary.BigEndian.Uint64(sum[:])
}
