package compare

import (
	"slices"
	"time"

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
	// Removed reports whether the run itself is not there any more.
	Removed bool `json:"removed"`
}

// History returns a metric of all stages of runs as lines, in the order in which stages first come. Each stage is
// compared with that of the last run before it that has the same plan, target, workload and load, and can be believed;
// several repeats are several stages. Runs without a time of their start are left out. The error is that of reading
// requests.
func History(runs []*Run, metric *Metric, o Options) ([]*Line, error) {
	runs = slices.SortedStableFunc(slices.Values(runs), func(a, b *Run) int { return begun(a).Compare(begun(b)) })
	var records []*Record
	last := map[StageKey]*Run{}
	for _, r := range runs {
		record, err := RecordOf(r, func(k StageKey) *Run { return last[k] }, o)
		if err != nil {
			return nil, err
		}
		if record == nil {
			continue
		}
		records = append(records, record)
		for i := range record.Stages {
			if s := &record.Stages[i]; s.Usable {
				last[record.Key(s)] = r
			}
		}
	}
	return Lines(records, metric), nil
}

// Lines returns a metric of all stages of records, the oldest first, as lines, in the order in which stages first come.
func Lines(records []*Record, metric *Metric) (order []*Line) {
	lines := map[StageKey]*Line{}
	for _, r := range records {
		for i := range r.Stages {
			s := &r.Stages[i]
			n, has := s.Numbers[metric.Name]
			if !has {
				continue
			}
			l := lines[r.Key(s)]
			if l == nil {
				l = &Line{Plan: r.Plan, Target: s.Target, Workload: s.Workload, Load: s.Load, Metric: metric.Name,
					Unit: metric.Unit}
				lines[r.Key(s)], order = l, append(order, l)
			}
			p := HistoryPoint{Run: r.Run, Time: r.Time, Version: r.Version, Labels: s.Labels, Value: n.Value,
				Verdict: s.Verdict, Change: n.Change, Outcome: n.Outcome}
			if n.Outcome != "" {
				p.Against = s.Against
			}
			l.Points = append(l.Points, p)
		}
	}
	return order
}
