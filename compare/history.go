package compare

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
)

// Line is one number of one stage over runs of a plan.
type Line struct {
	// Plan, target, workload and load of the stage.
	Plan     string `json:"plan"`
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Load     string `json:"load"`
	// Name of the metric as in results.json, and its unit; empty: a share.
	Metric string `json:"metric"`
	Unit   string `json:"unit"`
	// Points are the runs, the oldest first.
	Points []HistoryPoint `json:"points"`
}

// HistoryPoint is the number in one run.
type HistoryPoint struct {
	// Run is the run's ID, and Time when it began.
	Run  string    `json:"run"`
	Time time.Time `json:"time"`
	// Version of Spate, and the target's labels in the plan, such as the version of its image.
	Version string            `json:"version"`
	Labels  map[string]string `json:"labels"`
	// Value of the number, and the verdict on its stage.
	Value   float64       `json:"value"`
	Verdict trust.Verdict `json:"verdict"`
	// Against is the run that the number was compared with: the last one before it whose numbers can be believed.
	// Empty: there is none, or the number was not compared. Change is relative to that run's number, as in Difference.
	// Outcome says what the change means.
	Against string   `json:"against"`
	Change  *float64 `json:"change"`
	Outcome Outcome  `json:"outcome"`
}

// History returns a metric of all stages of runs as lines, in the order in which stages first come. Each stage is
// compared with that of the last run before it that has the same plan, target, workload and load, and can be believed;
// several repeats are several stages. Runs without a time of their start are left out. The error is that of reading
// requests.
func History(runs []*Run, metric *Metric, o Options) ([]*Line, error) {
	runs = slices.DeleteFunc(slices.Clone(runs), func(r *Run) bool { return begun(r).IsZero() })
	slices.SortStableFunc(runs, func(a, b *Run) int { return begun(a).Compare(begun(b)) })
	h := history{metric: metric, options: o, lines: map[lineKey]*Line{}, last: map[lineKey]*Run{}}
	for _, r := range runs {
		if err := h.add(r); err != nil {
			return nil, err
		}
	}
	return h.order, nil
}

// begun returns when a run began, zero if it is not known.
func begun(r *Run) time.Time {
	if r.Result.Run.BeginTime == nil {
		return time.Time{}
	}
	t, _ := time.Parse(time.RFC3339, *r.Result.Run.BeginTime) // zero if it fails
	return t
}

// lineKey is what a line is about.
type lineKey struct {
	plan string
	key
	repeat uint32
}

// history is what is known after some runs.
type history struct {
	metric  *Metric
	options Options
	lines   map[lineKey]*Line
	order   []*Line
	last    map[lineKey]*Run // that can be believed
}

// add adds a run that began after all before it.
func (h *history) add(r *Run) error {
	differences := map[lineKey]Difference{}
	for _, before := range h.baselines(r) {
		if err := h.compare(before, r, differences); err != nil {
			return err
		}
	}
	for i := range r.Result.Stages {
		s := &r.Result.Stages[i]
		value := h.metric.value(s)
		if value == nil {
			continue
		}
		k := keyOf(r, i)
		p := HistoryPoint{
			Run: cmp.Or(r.Result.Run.ID, r.Name), Time: begun(r), Version: r.Result.Run.Version,
			Labels: labelsOf(r, s.Target), Value: *value, Verdict: s.Trust.Verdict,
		}
		if d, compared := differences[k]; compared {
			p.Against, p.Change, p.Outcome = cmp.Or(h.last[k].Result.Run.ID, h.last[k].Name), d.Change, d.Outcome
		}
		l := h.line(k)
		l.Points = append(l.Points, p)
		if (&stage{run: r, result: s}).refusal() == "" {
			h.last[k] = r
		}
	}
	return nil
}

// baselines returns the runs with which the stages of a run are compared, each once.
func (h *history) baselines(r *Run) (runs []*Run) {
	for i := range r.Result.Stages {
		if before := h.last[keyOf(r, i)]; before != nil && !slices.Contains(runs, before) {
			runs = append(runs, before)
		}
	}
	return runs
}

// compare adds the differences of those stages of a run that are compared with another one.
func (h *history) compare(before, r *Run, to map[lineKey]Difference) error {
	a, err := versus(&Side{Name: before.Name, Runs: []*Run{before}}, &Side{Name: r.Name, Runs: []*Run{r}}, h.options)
	if errors.Is(err, ErrNothingInCommon) {
		return nil
	}
	if err != nil {
		return err
	}
	c := Comparison{Tolerance: h.options.Tolerance, Confidence: h.options.confidence(), Sides: []Against{*a}}
	c.conclude(h.options)
	for _, s := range c.Sides[0].Stages {
		for i := range s.Stages { // several: repeats that were compared as a whole
			k := keyOf(r, slices.IndexFunc(r.Result.Stages, func(x results.StageResult) bool {
				return x.Index == s.Stages[i]
			}))
			for _, d := range s.Metrics {
				if d.Metric == h.metric.Name && h.last[k] == before {
					to[k] = d
				}
			}
		}
	}
	return nil
}

// line returns the line of a key.
func (h *history) line(k lineKey) *Line {
	l := h.lines[k]
	if l == nil {
		l = &Line{Plan: k.plan, Target: k.target, Workload: k.workload, Load: k.load, Metric: h.metric.Name,
			Unit: h.metric.Unit}
		h.lines[k], h.order = l, append(h.order, l)
	}
	return l
}

// keyOf returns the key of a run's stage.
func keyOf(r *Run, number int) lineKey {
	s, plan := &r.Result.Stages[number], ""
	if r.Result.Run.Plan != nil {
		plan = *r.Result.Run.Plan
	}
	return lineKey{plan, key{s.Target, s.Workload, s.Load.Words}, s.Load.Repeat}
}

// labelsOf returns the labels that the plan of a run gives a target.
func labelsOf(r *Run, target string) map[string]string {
	for _, t := range r.Result.Run.Targets {
		if t.Name == target {
			return t.Labels
		}
	}
	return nil
}
