package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/floats"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
)

// Kind is what an answer of a frontier or a search is.
type Kind string

// Kinds. Each is the highest value of a number that the curve has.
const (
	// Knee: the throughput divided by the latency.
	Knee Kind = "knee"
	// HighestGoodput: the requests per second that met the SLO.
	HighestGoodput Kind = "highest_goodput"
	// HighestThroughput: the requests per second.
	HighestThroughput Kind = "highest_throughput"
	// HighestLoad: the load within limits, of a frontier or a search.
	HighestLoad Kind = "highest_load"
)

// Answer compares an answer of a frontier or a search with the baseline's.
type Answer struct {
	// Target as the baseline names it; empty if sides are targets. Workload as in the plan.
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Kind     Kind   `json:"kind"`
	// Latency of a knee, as "mean E2E". Objectives of a highest load, in words. Empty: another kind.
	Latency    string `json:"latency"`
	Objectives string `json:"objectives"`
	// Part of the mixture whose limits a highest load keeps. Empty: the whole.
	Part string `json:"part"`
	// LoadUnit is "rate" (requests per second) or "concurrency".
	LoadUnit string `json:"load_unit"`
	// What each run found, of the baseline and of the side.
	BaselineRuns []Found `json:"baseline_runs"`
	Runs         []Found `json:"runs"`
	// Marks that a reader must see: verdicts that are not VALID; of a highest throughput also what is not known
	// precisely of the frontier, and why it ended.
	Marks []string `json:"marks"`
	// How chance was judged.
	Method Method `json:"method"`
	// The difference. Its interval includes how precisely the answers are known if they are at different loads.
	Difference Difference `json:"difference"`
}

// Found is an answer of one run.
type Found struct {
	// Index of the stage, and its load.
	Stage uint32  `json:"stage"`
	Load  float64 `json:"load"`
	// Value of the answer.
	Value float64 `json:"value"`
	// RequestThroughput and LatencyMs of the frontier's point. Null: not known, or the answer is a highest load.
	RequestThroughput *float64 `json:"request_throughput"`
	LatencyMs         *float64 `json:"latency_ms"`
	// Broke is the lowest load that was too high. Null: the answer is not a highest load, or nothing was too high.
	Broke *float64 `json:"broke"`
}

// answerKey is what answers of two runs have in common if they are compared.
type answerKey struct {
	target, workload, unit string
	kind                   Kind
	latency, limits, part  string
	number                 int // among those of a run that are otherwise equal
}

// String returns the key in words.
func (k answerKey) String() string {
	return words.Joined(", ", k.target, k.workload, strings.ReplaceAll(string(k.kind), "_", " "), k.latency, k.limits, k.part)
}

// answer is an answer of one run. at is its stage; nil: the run has no such answer, for the reason in why.
type answer struct {
	Found
	at        *stage
	why       string
	precision float64 // how precisely it is known, as a logarithm; +Inf: not
	doubt     string  // why it is not known as precisely as was asked
	end       string  // why no higher load was measured
}

// answersOf returns what frontiers and searches of the side's runs found, in which order, and what each run did. rename
// gives a target another name.
func (s *Side) answersOf(rename func(string) string) (order []answerKey, of map[answerKey][]*answer) {
	of = map[answerKey][]*answer{}
	for _, run := range s.Runs {
		seen := map[answerKey]int{}
		add := func(k answerKey, a *answer) {
			if s.Target != "" && s.Target != k.target {
				return
			}
			if k.target = rename(k.target); s.Target != "" {
				k.target = ""
			}
			k.number, seen[k] = seen[k], seen[k]+1
			if of[k] == nil {
				order = append(order, k)
			}
			of[k] = append(of[k], a)
		}
		for i := range run.Result.Run.Series {
			seriesAnswers(run, &run.Result.Run.Series[i], add)
		}
	}
	return order, of
}

// seriesAnswers adds what a frontier or a search found.
func seriesAnswers(run *Run, f *results.SeriesResult, add func(answerKey, *answer)) {
	k := answerKey{target: f.Target, workload: f.Workload, unit: f.Unit}
	at := func(kind Kind, latency string, stage *uint32, value func(*results.SeriesPoint) *float64) {
		k := k
		k.kind, k.latency = kind, latency
		add(k, onCurve(run, f, stage, value))
	}
	if f.Kind == loadpoint.Frontier {
		at(Knee, f.Latency, f.Knee, func(p *results.SeriesPoint) *float64 {
			if p.RequestThroughput == nil || p.LatencyMs == nil || *p.LatencyMs <= 0 {
				return nil
			}
			return new(*p.RequestThroughput / *p.LatencyMs * nanosPerSecond / nanosPerMs)
		})
		if f.HighestGoodput != nil {
			at(HighestGoodput, "", f.HighestGoodput, func(p *results.SeriesPoint) *float64 { return p.Goodput })
		}
		throughput := func(p *results.SeriesPoint) *float64 { return p.RequestThroughput }
		at(HighestThroughput, "", highest(f, throughput), throughput)
	}
	for _, l := range f.Limits {
		k := k
		k.kind, k.limits = HighestLoad, strings.Join(f.Objectives, ", ")
		k.part = *cmp.Or(l.Part, new(""))
		add(k, highestLoad(run, l))
	}
}

// highest returns the stage of the point on the curve with the highest value. It returns nil if there is none.
func highest(f *results.SeriesResult, value func(*results.SeriesPoint) *float64) *uint32 {
	var stage *uint32
	most := 0.0
	for p := range lists.Refs(f.Points) {
		if v := value(p); p.LeftOut == nil && v != nil && *v > most {
			stage, most = &p.Stage, *v
		}
	}
	return stage
}

// onCurve returns the answer that is a point of the curve.
func onCurve(run *Run, f *results.SeriesResult, of *uint32, value func(*results.SeriesPoint) *float64) *answer {
	a := &answer{why: "the frontier has no such point", precision: math.Log1p(f.Tolerance), end: *cmp.Or(f.End, new(""))}
	if !f.Converged {
		a.precision, a.doubt = math.Inf(1), "not known precisely"
		if f.Reason != nil {
			a.doubt += ": " + *f.Reason
		}
	}
	p := lists.First(f.Points, func(p *results.SeriesPoint) bool { return of != nil && p.Stage == *of })
	if p == nil {
		return a
	}
	if v := value(p); v != nil {
		a.at, a.Value, a.Load, a.Stage = run.stage(p.Stage), *v, p.Load, p.Stage
		a.RequestThroughput, a.LatencyMs = p.RequestThroughput, p.LatencyMs
	}
	return a
}

// highestLoad returns the answer that is the highest load within limits.
func highestLoad(run *Run, l results.LoadLimit) *answer {
	a := &answer{why: "no load is within the limits", precision: math.Inf(1)}
	if l.Reason != nil {
		a.why += " (" + *l.Reason + ")"
	}
	if l.Kept == nil || l.Stage == nil {
		return a
	}
	a.at, a.Value, a.Load, a.Stage, a.Broke = run.stage(*l.Stage), *l.Kept, *l.Kept, *l.Stage, l.Broke
	if a.doubt = "no load was too high"; l.Broke != nil {
		a.precision = math.Log(*l.Broke / *l.Kept)
	}
	return a
}

// stage returns the stage with an index, or nil.
func (r *Run) stage(index uint32) *stage {
	if s := results.StageAt(r.Result.Stages, index); s != nil {
		return &stage{run: r, result: s}
	}
	return nil
}

// answers compares what frontiers and searches of both sides found.
func (a *Against) answers(baseline, side *Side, rename func(string) string, o Options) error {
	order, ours := baseline.answersOf(func(name string) string { return name })
	others, theirs := side.answersOf(rename)
	for _, k := range order {
		if len(theirs[k]) == 0 {
			a.Unmatched = append(a.Unmatched, Left{Stage: k.String(), Why: "only in " + baseline.Name, inBaseline: true})
			continue
		}
		x := a.known(k, ours[k], baseline.Name, false, o)
		y := a.known(k, theirs[k], side.Name, len(x) > 0, o)
		if len(x) >= fewestRepeats && len(y) >= fewestRepeats {
			a.Answers = append(a.Answers, answered(k, x, y))
			a.Answers[len(a.Answers)-1].repeats(x, y, o)
			continue
		}
		for i := range min(len(x), len(y)) {
			answer := answered(k, x[i:i+1], y[i:i+1])
			if err := answer.compare(x[i], y[i], o); err != nil {
				return err
			}
			a.Answers = append(a.Answers, answer)
		}
	}
	for _, k := range others {
		if len(ours[k]) == 0 {
			a.Unmatched = append(a.Unmatched, Left{Stage: k.String(), Why: "only in " + side.Name})
		}
	}
	return nil
}

// known returns the answers that can be compared, and records the others: lacking is whether the side then lacks
// what the baseline has.
func (a *Against) known(k answerKey, all []*answer, side string, lacking bool, o Options) (good []*answer) {
	for _, f := range all {
		switch {
		case f.at == nil:
			a.Unmatched = append(a.Unmatched, Left{Stage: k.String(), Why: side + ": " + f.why, inBaseline: lacking})
		case f.at.refusal() != "" && !o.AllowInvalid:
			a.Refused = append(a.Refused, Left{Stage: k.String(), Why: f.at.run.Name + ": " + f.at.refusal()})
		default:
			good = append(good, f)
		}
	}
	return good
}

// answered returns the comparison of answers before its difference.
func answered(k answerKey, ours, theirs []*answer) Answer {
	a := Answer{Target: k.target, Workload: k.workload, Kind: k.kind, Latency: k.latency, Objectives: k.limits,
		Part: k.part, LoadUnit: k.unit, Marks: []string{}, Method: None}
	note := func(side string, f *answer) {
		a.Marks = append(a.Marks, marksOf(side, f.at)...)
		for _, of := range []string{f.doubt, f.end} {
			if k.kind == HighestThroughput && of != "" { // once for a frontier
				a.Marks = append(a.Marks, side+": "+of)
			}
		}
	}
	for _, f := range ours {
		a.BaselineRuns = append(a.BaselineRuns, f.Found)
		note("baseline", f)
	}
	for _, f := range theirs {
		a.Runs = append(a.Runs, f.Found)
		note(f.at.run.Name, f)
	}
	return a
}

// metric returns the number that the answer is the highest value of.
func (a *Answer) metric() *Metric {
	m := &Metric{Name: string(a.Kind), Unit: "req/s", Higher: true}
	switch a.Kind {
	case Knee:
		m.Unit = "req/s per s"
		m.series, m.resolution = power(a.Latency)
	case HighestGoodput:
		m.series = func(s *series, _ float64) []float64 {
			share := floats.Sum(s.good.sum) / floats.Sum(s.good.n)
			return sum(relative(s.requests), scaled(s.good.mean(), 1/share))
		}
	case HighestThroughput:
		m.series = func(s *series, _ float64) []float64 { return relative(s.requests) }
	case HighestLoad:
		if a.LoadUnit == "concurrency" {
			m.Unit = "in flight"
		}
	}
	return m
}

// power returns by how much each part of a stage moves the throughput divided by a latency, which is named as in
// results.SeriesResult, and the resolution of that latency. It returns nil if it is not a latency that is compared.
func power(latency string) (of func(*series, float64) []float64, resolution float64) {
	which, name, _ := strings.Cut(latency, " ")
	m, err := MetricNamed(name + "_ms." + which)
	if err != nil {
		return nil, 0
	}
	return func(s *series, _ float64) []float64 {
		return sum(relative(s.requests), scaled(m.series(s, *m.value(s.result)), -1))
	}, m.resolution
}

// sum returns the sums of two series, or nil if one is nil.
func sum(a, b []float64) []float64 {
	if a == nil || b == nil {
		return nil
	}
	floats.Add(a, b)
	return a
}

// compare compares the answers of two runs: by how much their stages vary over their time.
func (a *Answer) compare(ours, theirs *answer, o Options) error {
	m := a.metric()
	a.Difference = m.compare(ours.Value, theirs.Value)
	slack, why := a.Kind.precision([]*answer{ours}, []*answer{theirs})
	switch {
	case a.Kind == HighestLoad:
		why = fmt.Sprintf("one run each does not show how far chance moves it: %d or more of each do", fewestRepeats)
	case why == "" && m.series == nil:
		why = "chance is judged for the mean, p50, p90 and p99 of a latency"
	}
	if why != "" {
		a.Difference = a.Difference.untested(why)
		return nil
	}
	p, err := newPair(ours.at, theirs.at)
	if p == nil || err != nil {
		a.Difference = a.Difference.untested(noRows)
		return err
	}
	a.Method = Blocks
	a.Difference, _ = p.inBlocks(a.Difference, m, slack, o)
	return nil
}

// repeats compares the answers of several runs of both sides: each is one value.
func (a *Answer) repeats(ours, theirs []*answer, o Options) {
	values := func(all []*answer) (values []float64) {
		return lists.Each(all, func(f *answer) float64 { return f.Value })
	}
	x, y, m := values(ours), values(theirs), a.metric()
	a.Method = Repeats
	slack, why := a.Kind.precision(ours, theirs)
	if why != "" {
		a.Difference = m.compare(mean(x), mean(y)).untested(why)
		return
	}
	a.Difference = m.repeats(x, y, slack, o)
}

// precision returns how far the precision of the answers may move their difference, as a logarithm. Points at one and
// the same load are compared as they are. why says why it is not known.
func (k Kind) precision(ours, theirs []*answer) (slack float64, why string) {
	elsewhere := k == HighestLoad
	for _, f := range slices.Concat(ours, theirs) {
		slack = max(slack, f.precision)
		elsewhere = elsewhere || f.Load != ours[0].Load
		if math.IsInf(f.precision, 1) {
			why = cmp.Or(why, f.at.run.Name+": "+f.doubt)
		}
	}
	if !elsewhere {
		return 0, ""
	}
	return slack, why
}
