package compare

import (
	"cmp"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
)

// Record is what a history keeps of a run, which may be removed afterwards: the numbers of its stages, and how each
// differs from the run before.
type Record struct {
	// Run is the run's ID, and Time when it began.
	Run  string    `json:"run"`
	Time time.Time `json:"time"`
	// Plan is the name of its plan, and Version that of Spate.
	Plan    string        `json:"plan"`
	Version string        `json:"version"`
	Stages  []StageRecord `json:"stages"`
}

// StageRecord is what a history keeps of a stage.
type StageRecord struct {
	// Target, workload, load and repeat of the stage.
	Target   string `json:"target"`
	Workload string `json:"workload"`
	Load     string `json:"load"`
	Repeat   uint32 `json:"repeat,omitempty"`
	// Labels of the target in the plan.
	Labels map[string]string `json:"labels,omitempty"`
	// Verdict on the stage, and whether later runs are compared with it.
	Verdict trust.Verdict `json:"verdict"`
	Usable  bool          `json:"usable"`
	// Against is the run that the stage was compared with. Empty: none.
	Against string `json:"against,omitempty"`
	// Numbers are those that the stage has, by the name of their metric.
	Numbers map[string]Number `json:"numbers"`
}

// Number is a number of a stage. Outcome is empty if it was not compared.
type Number struct {
	Value   float64  `json:"value"`
	Change  *float64 `json:"change,omitempty"`
	Outcome Outcome  `json:"outcome,omitempty"`
}

// StageKey is what stages of two runs have in common if they are compared.
type StageKey struct {
	Plan, Target, Workload, Load string
	Repeat                       uint32
}

// Key returns the key of a stage of the record.
func (r *Record) Key(s *StageRecord) StageKey {
	return StageKey{r.Plan, s.Target, s.Workload, s.Load, s.Repeat}
}

// RecordOf returns the record of a run. before returns the run that stages with a key are compared with, nil for none:
// the last one before it that has such a stage, and whose record says that it is usable. It returns nil if it is not
// known when the run began. The error is that of reading requests.
func RecordOf(r *Run, before func(StageKey) *Run, o Options) (*Record, error) {
	if begun(r).IsZero() {
		return nil, nil
	}
	record := &Record{Run: nameOf(r), Time: begun(r), Plan: *cmp.Or(r.Result.Run.Plan, new("")),
		Version: r.Result.Run.Version}
	compared := map[*Run]map[uint32][]Difference{}
	for s := range lists.Refs(r.Result.Stages) {
		stage := recordOf(r, s)
		if last := before(record.Key(&stage)); last != nil {
			if compared[last] == nil {
				var err error
				if compared[last], err = differences(last, r, o); err != nil {
					return nil, err
				}
			}
			stage.add(nameOf(last), compared[last][s.Index])
		}
		record.Stages = append(record.Stages, stage)
	}
	return record, nil
}

// recordOf returns the record of a stage before it is compared.
func recordOf(r *Run, s *results.StageResult) StageRecord {
	out := StageRecord{
		Target: s.Target, Workload: s.Workload, Load: s.Load.Words, Repeat: s.Load.Repeat,
		Verdict: s.Trust.Verdict, Usable: (&stage{run: r, result: s}).refusal() == "", Numbers: map[string]Number{},
	}
	if t := r.Result.Run.Target(s.Target); t != nil {
		out.Labels = t.Labels
	}
	for i := range Metrics {
		if value := Metrics[i].value(s); value != nil {
			out.Numbers[Metrics[i].Name] = Number{Value: *value}
		}
	}
	return out
}

// add adds the differences from a run before.
func (s *StageRecord) add(against string, differences []Difference) {
	for _, d := range differences {
		if n, has := s.Numbers[d.Metric]; has {
			s.Against, n.Change, n.Outcome = against, d.Change, d.Outcome
			s.Numbers[d.Metric] = n
		}
	}
}

// differences returns the differences of those stages of a run that are compared with another one, by their index.
func differences(before, r *Run, o Options) (map[uint32][]Difference, error) {
	ours, theirs := &Side{Name: before.Name, Runs: []*Run{before}}, &Side{Name: r.Name, Runs: []*Run{r}}
	a, err := versus(ours, theirs, renaming(ours, theirs), o)
	if err != nil {
		return nil, err
	}
	c := Comparison{Tolerance: o.Tolerance, Confidence: confidence, Sides: []Against{*a}}
	c.conclude(o)
	all := map[uint32][]Difference{}
	for _, s := range c.Sides[0].Stages {
		for _, index := range s.Stages { // several: repeats that were compared as a whole
			all[index] = s.Metrics
		}
	}
	return all, nil
}

// nameOf returns the ID of a run, or else its name for people.
func nameOf(r *Run) string { return cmp.Or(r.Result.Run.ID, r.Name) }

// begun returns when a run began, zero if it is not known.
func begun(r *Run) time.Time {
	t, _ := time.Parse(time.RFC3339, *cmp.Or(r.Result.Run.BeginTime, new(""))) // zero if it fails
	return t
}
