package results

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/measure"
	"github.com/spate-load/spate/plans/document"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// File is the name of the file of results in a run directory.
const File = "results.json"

// Read reads the content of results.json. It does not check the numbers. The error does not name the file.
func Read(content []byte) (*Result, error) {
	var result Result
	if err := json.Unmarshal(content, &result); err != nil {
		return nil, err
	}
	if result.Run.ID == "" || result.Run.Definitions == 0 {
		return nil, errors.New("it has no run.id or no run.definitions")
	}
	return &result, nil
}

// Of makes the result of a run from its ledger, without thresholds: package thresholds compares them.
func Of(l *ledger.Ledger) (*Result, error) { return Visit(l, Visitor{}) }

// Visitor is for files that need more of a stage than its result. Both functions may be nil.
type Visitor struct {
	// Start is called before a stage is merged, and returns what to call with the values that are merged.
	Start func(*spatev1.StageRecord) merge.Watch
	// End is called with the merged stage. An error ends the visit.
	End func(*merge.Stage, *spatev1.StageRecord, StageResult) error
}

// Visit is Of that also calls a visitor for each stage, in the order in which they ran. It stops at the first error of
// the visitor.
func Visit(l *ledger.Ledger, v Visitor) (*Result, error) {
	run, err := l.Run()
	if err != nil {
		return nil, err
	}
	records, err := l.Stages()
	if err != nil {
		return nil, err
	}
	result := &Result{Thresholds: []Threshold{}, Stages: []StageResult{}}
	repeats := newGatherer(records)
	for _, rec := range records {
		var watch merge.Watch
		if v.Start != nil {
			watch = v.Start(rec)
		}
		stage, err := merge.Replay(l, rec, watch)
		if err != nil {
			return nil, err
		}
		stageResult := OfStage(stage, rec)
		result.Stages = append(result.Stages, stageResult)
		repeats.add(stage, rec, stageResult)
		if v.End == nil {
			continue
		}
		if err := v.End(stage, rec, stageResult); err != nil {
			return nil, err
		}
	}
	result.Repeats = repeats.results()
	result.Run = runResult(run, records, result.Stages)
	result.group()
	return result, nil
}

// Target returns a target of the run by its name. Nil: there is none.
func (r *RunResult) Target(name string) *RunTarget {
	return lists.First(r.Targets, func(t *RunTarget) bool { return t.Name == name })
}

// group puts the stages of each target together, in the plan's order of targets: they may have run in turns.
func (r *Result) group() {
	place := make(map[string]int)
	for _, t := range r.Run.Targets {
		place[t.Name] = len(place)
	}
	for _, s := range r.Stages {
		if _, known := place[s.Target]; !known {
			place[s.Target] = len(place)
		}
	}
	slices.SortStableFunc(r.Stages, func(a, b StageResult) int { return cmp.Compare(place[a.Target], place[b.Target]) })
	slices.SortStableFunc(r.Repeats, func(a, b Repeats) int { return cmp.Compare(place[a.Target], place[b.Target]) })
}

// Ran returns the stages in the order in which they ran.
func (r *Result) Ran() []*StageResult {
	ran := slices.Collect(lists.Refs(r.Stages))
	slices.SortFunc(ran, func(a, b *StageResult) int { return cmp.Compare(a.Index, b.Index) })
	return ran
}

// runResult returns the result of the run as a whole.
func runResult(run *spatev1.RunRecord, records []*spatev1.StageRecord, stages []StageResult) RunResult {
	missing := append(runMissing(run, stages), unanswered(run)...)
	r := RunResult{
		ID:            run.GetRunId(),
		BeginTime:     timeText(run.GetBeginTime()),
		EndTime:       timeText(run.GetEndTime()),
		Outcome:       outcomeName(run.GetOutcome()),
		Reason:        unlessZero(run.GetReason()),
		Version:       run.GetVersion(),
		Definitions:   measure.Definitions, // a ledger with other definitions cannot be opened
		Records:       unlessZero(run.GetRecords()),
		StagesPlanned: run.GetStages(),
		Series:        seriesOf(run.GetSeries(), stages),
		Restarts:      run.GetRestarts(),
		Agents:        runAgents(records),
		Targets:       []RunTarget{},

		TimeCompression: unlessZero(run.GetTimeCompression()),

		Complete: len(missing) == 0,
		Missing:  missing,
		Verdict:  verdictOfRun(run, records, stages),
	}
	if plan := planOf(run); plan != nil {
		seed := plan.GetSeed()
		r.Plan, r.Seed = unlessZero(plan.GetName()), &seed
		r.Targets, r.Description = targetsOf(plan.GetTargets()), unlessZero(plan.GetDescription())
	}
	return r
}

// targetsOf returns what a plan says about its targets.
func targetsOf(targets []*spatev1.Target) []RunTarget {
	results := make([]RunTarget, len(targets))
	for i, t := range targets {
		results[i] = RunTarget{Name: t.GetName(), GPUs: unlessZero(t.GetGpus()), Hardware: unlessZero(t.GetHardware()),
			CostPerHour: unlessZero(t.GetCostPerHour()), Labels: t.GetLabels(), Baseline: t.GetBaseline(),
			TraceURL: unlessZero(t.GetTraceUrl())}
		if results[i].Labels == nil {
			results[i].Labels = map[string]string{}
		}
	}
	marked := slices.ContainsFunc(results, func(t RunTarget) bool { return t.Baseline })
	if !marked && len(results) > 0 {
		results[0].Baseline = true
	}
	return results
}

// planOf returns the plan of a run, or nil if it cannot be parsed.
func planOf(run *spatev1.RunRecord) *spatev1.Plan {
	plan, text := &spatev1.Plan{}, run.GetPlanYaml()
	d, err := document.Parse("plan.yaml", text, plan.ProtoReflect().Descriptor(), len(text))
	if err != nil || d.Read(plan) != nil {
		return nil
	}
	return plan
}

// boundOnly reports whether the number of stages in a run's record is only an upper bound: how many stages a sweep, a
// search or a frontier takes is known only at the end of the run.
func boundOnly(run *spatev1.RunRecord) bool {
	if run.GetEndTime() != nil {
		return false
	}
	return slices.ContainsFunc(planOf(run).GetLoads(), func(l *spatev1.Load) bool {
		return l.GetSearch() != nil || l.GetSweep() != nil || l.GetFrontier() != nil || l.GetChoose() != nil
	})
}

// runMissing returns what the run lacks to be complete, in words.
func runMissing(run *spatev1.RunRecord, stages []StageResult) []string {
	missing := []string{}
	switch run.GetOutcome() {
	case spatev1.Outcome_OUTCOME_DONE:
	case spatev1.Outcome_OUTCOME_STOPPED:
		missing = append(missing, withReason("the run was stopped", run.GetReason()))
	case spatev1.Outcome_OUTCOME_FAILED:
		missing = append(missing, withReason("the run failed", run.GetReason()))
	case spatev1.Outcome_OUTCOME_UNSPECIFIED:
		missing = append(missing, "the run has not ended: the coordinator died or is still working on it")
	}
	if absent := int64(run.GetStages()) - int64(len(stages)); absent > 0 {
		most := ""
		if boundOnly(run) {
			most = "up to "
		}
		missing = append(missing, fmt.Sprintf("%s%d of %d stages did not start", most, absent, run.GetStages()))
	}
	for _, s := range stages {
		for _, reason := range s.Missing {
			missing = append(missing, fmt.Sprintf("stage %d: %s", s.Index+1, reason))
		}
	}
	return missing
}

// Unexplained is what is missing for other reasons than the one for which the run ended.
func (r *RunResult) Unexplained() []string {
	return slices.DeleteFunc(slices.Clone(r.Missing), func(what string) bool {
		return r.Reason != nil && strings.HasSuffix(what, *r.Reason)
	})
}

// unanswered returns, in words, which searches, frontiers and sweeps have no answer.
func unanswered(run *spatev1.RunRecord) (missing []string) {
	for _, s := range run.GetSeries() {
		if !s.GetComplete() {
			missing = append(missing, withReason(fmt.Sprintf("the %s of %s, %s has no complete answer",
				loadpoint.Kind(s.GetLoad()), s.GetTarget(), s.GetWorkload()), s.GetSentence()))
		}
	}
	return missing
}

// verdictOfRun returns the verdict on the run, or nil if no stage was judged.
func verdictOfRun(run *spatev1.RunRecord, records []*spatev1.StageRecord, stages []StageResult) *trust.Verdict {
	byIndex := map[uint32]trust.Verdict{}
	for _, s := range stages {
		byIndex[s.Index] = s.Trust.Verdict
	}
	return unlessZero(RunVerdict(slices.Values(records), run,
		func(rec *spatev1.StageRecord) trust.Verdict { return byIndex[rec.GetStage().GetIndex()] }))
}

// withReason appends a reason, if there is one.
func withReason(what, reason string) string {
	if reason == "" {
		return what
	}
	return what + ": " + reason
}

// outcomeName returns the name of an outcome, or nil if the run has none yet.
func outcomeName(o spatev1.Outcome) *string {
	if o == spatev1.Outcome_OUTCOME_UNSPECIFIED {
		return nil
	}
	return new(strings.ToLower(strings.TrimPrefix(o.String(), "OUTCOME_")))
}

// runAgents returns the agents of all stages, each once, sorted by name.
func runAgents(records []*spatev1.StageRecord) []RunAgent {
	byName := make(map[string]RunAgent)
	for _, rec := range records {
		for _, assigned := range rec.GetAgents() {
			a := assigned.GetAgent()
			agent := RunAgent{Name: a.GetName(), Region: a.GetRegion(), Host: a.GetHost(), Version: a.GetVersion(),
				Cores: unlessZero(a.GetCores()), Labels: map[string]string{}}
			maps.Copy(agent.Labels, a.GetLabels())
			byName[agent.Name] = agent
		}
	}
	return append([]RunAgent{}, slices.SortedFunc(maps.Values(byName), func(a, b RunAgent) int {
		return cmp.Compare(a.Name, b.Name)
	})...)
}

// RunVerdict returns the verdict on a run's measurements: the worst verdict of any stage. In place of the stages of a
// search, a frontier or a sweep the verdict on what it found counts. The verdict is empty if no stage was judged.
func RunVerdict(
	stages iter.Seq[*spatev1.StageRecord], run *spatev1.RunRecord, verdictOf func(*spatev1.StageRecord) trust.Verdict,
) trust.Verdict {
	var worst trust.Verdict
	for rec := range stages {
		probe := rec.GetStage().GetProbe()
		answered := slices.ContainsFunc(run.GetSeries(), func(s *spatev1.SeriesRecord) bool {
			return probe != nil && s.GetSeries() == probe.GetSeries()
		})
		if !answered {
			v := verdictOf(rec)
			worst = cmp.Or(worst, v).Worse(v)
		}
	}
	for _, s := range run.GetSeries() {
		v := trust.Verdict(s.GetVerdict())
		worst = cmp.Or(worst, v).Worse(v)
	}
	return worst
}

// StageAt returns the one of stages that has an index. Nil: there is none.
func StageAt(stages []StageResult, index uint32) *StageResult {
	return lists.First(stages, func(s *StageResult) bool { return s.Index == index })
}

// ProbedLoad returns the concurrency or rate of a stage of a sweep, a search or a frontier, and 0 of another stage.
// Their loads are not in order: they depend on what was measured.
func (s *StageResult) ProbedLoad() float64 {
	if s.Probe == nil {
		return 0
	}
	return s.Load.Value()
}

// Believable reports whether the numbers of the stage mean what they say.
func (s *StageResult) Believable() bool { return s.Complete && s.Trust.Verdict != trust.Invalid }

// Middle returns the middle of the stage in seconds since 1970 by the coordinator's clock, and whether it is known.
func (s *StageResult) Middle() (float64, bool) {
	if s.StartTime == nil || s.DurationS == nil {
		return 0, false
	}
	start, err := time.Parse(time.RFC3339Nano, *s.StartTime)
	return float64(start.UnixNano())/nanosPerSecond + *s.DurationS/2, err == nil
}
