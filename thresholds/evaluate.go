package thresholds

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Origins of a threshold, as results.json has them.
const (
	FromPlan = "plan"
	FromFlag = "flag"
)

// Evaluate returns the outcome of each threshold for the stages of a result. baseline is the result that conditions
// with the word "baseline" compare with; nil: there is none. from is FromPlan or FromFlag.
//
// Of the probes of a search, only the stage at the load that the search found is compared, as for the verdict of the
// run. A condition that cannot be read has failed, with the reason.
func Evaluate(wanted []*spatev1.Threshold, from string, r, baseline *results.Result) []results.Threshold {
	evaluated := func(w *spatev1.Threshold) results.Threshold { return evaluate(w, from, r, baseline) }
	return append([]results.Threshold{}, lists.Each(wanted, evaluated)...)
}

func evaluate(w *spatev1.Threshold, from string, r, baseline *results.Result) results.Threshold {
	out := results.Threshold{That: w.GetThat(), From: from, Stages: []results.ThresholdStage{},
		Target: given(w.GetTarget()), Workload: given(w.GetWorkload()), Load: given(w.GetLoad()),
		Part: given(w.GetPart())}
	t, err := Parse(w.GetThat(), w.GetPart())
	if err != nil {
		out.Reason = given("the condition cannot be read: " + err.Error())
		return out
	}
	for i := range r.Stages {
		if s := &r.Stages[i]; covers(w, s) && counts(r, s) {
			out.Stages = append(out.Stages, t.outcome(r, s, baseline))
		}
	}
	out.Passed = len(out.Stages) > 0
	for _, s := range out.Stages {
		out.Passed = out.Passed && s.Passed
	}
	if len(out.Stages) == 0 {
		out.Reason = given("it was not compared with any stage: none that it is for has results")
	}
	return out
}

// given returns nil for an empty text.
func given(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// covers reports whether a threshold is for a stage.
func covers(w *spatev1.Threshold, s *results.StageResult) bool {
	is := func(want, got string) bool { return want == "" || want == got }
	return is(w.GetTarget(), s.Target) && is(w.GetWorkload(), s.Workload) && is(w.GetLoad(), s.Load.Words) &&
		recordOf(s, w.GetPart()) != nil
}

// counts reports whether a stage counts: it is not a probe of a search, or it is the one at the load that was found.
func counts(r *results.Result, s *results.StageResult) bool {
	found := search(r, s)
	return found == nil || found.Limit().Stage != nil && *found.Limit().Stage == s.Index
}

// search returns the search that a stage is a probe of, or nil.
func search(r *results.Result, s *results.StageResult) *results.SeriesResult {
	return lists.Find(r.Run.SeriesOf(loadpoint.Search), func(of *results.SeriesResult) bool {
		return s.Probe != nil && of.Series == s.Probe.Series
	})
}

// outcome compares a stage.
func (t *Threshold) outcome(r *results.Result, s *results.StageResult, base *results.Result) results.ThresholdStage {
	sides := t.of(recordOf(s, t.part), inBase(base, r, s, t.part))
	out := results.ThresholdStage{Index: s.Index, Target: s.Target, Workload: s.Workload, Load: s.Load.Words}
	doubt := doubtOf(s)
	if sides.unknown != "" {
		out.Words = cmp.Or(doubt, sides.unknown)
		return out
	}
	value, limit := t.written(sides.left), t.written(sides.right)
	if !t.text {
		out.Value, out.Limit = &sides.left.number, &sides.right.number
	}
	out.Passed = t.holds(sides) && doubt == ""
	out.Words = value
	if !out.Passed {
		unit := t.left.unit()
		out.Words = fmt.Sprintf("%s%s, want %s%s", value, unit, strings.TrimPrefix(t.compare+" "+limit, "= "), unit)
	}
	if doubt != "" {
		out.Words = doubt + ": " + value
	}
	return out
}

// written formats a side's value.
func (t *Threshold) written(v value) string {
	if t.text {
		return v.text
	}
	return digits(v.number)
}

// doubtOf returns why a stage cannot pass, whatever its numbers are, or "".
func doubtOf(s *results.StageResult) string {
	var doubts []string
	if s.Trust.Verdict == trust.Invalid {
		doubts = append(doubts, "the stage is INVALID")
	}
	if !s.Complete {
		doubts = append(doubts, "the stage is incomplete")
	}
	return strings.Join(doubts, ", ")
}

// baseline is the stage, or the part of it, that another is compared with.
type baseline struct {
	record *record // nil: there is none
	why    string  // why there is none
}

// inBase returns the stage of a baseline with the target, workload and load of a stage, or its part with a name. The
// load that a search found differs from run to run, so a search's stage is compared with that of the baseline's search.
func inBase(base, r *results.Result, s *results.StageResult, part string) baseline {
	if why := unlike(base, r); why != "" {
		return baseline{why: why}
	}
	var match *results.StageResult
	found := search(r, s) != nil
	for b := range lists.Refs(base.Stages) {
		if b.Target != s.Target || b.Workload != s.Workload || !counts(base, b) || found != (search(base, b) != nil) {
			continue
		}
		if found || b.Load.Words == s.Load.Words && (match == nil || b.Load.Repeat == s.Load.Repeat) {
			match = b
		}
	}
	if match == nil {
		return baseline{why: fmt.Sprintf("the baseline has no stage of %s, %s, %s", s.Target, s.Workload, s.Load.Words)}
	}
	if doubt := doubtOf(match); doubt != "" {
		return baseline{why: "in the baseline, " + doubt}
	}
	return baseline{recordOf(match, part), fmt.Sprintf("in the baseline, the stage has no part %s", part)}
}

// unlike returns why a result cannot be compared with a baseline at all, or "".
func unlike(base, r *results.Result) string {
	switch {
	case base == nil:
		return "there is no baseline: give --baseline"
	case base.Run.Definitions != r.Run.Definitions:
		return fmt.Sprintf("the numbers of the baseline are defined otherwise (definitions %d, and %d here): measure it again",
			base.Run.Definitions, r.Run.Definitions)
	case speed(base) != speed(r):
		return fmt.Sprintf("the times of the baseline are compressed %s times, and %s times here",
			digits(speed(base)), digits(speed(r)))
	}
	return ""
}

// speed returns the factor by which a run's times are compressed: 1 if they are not.
func speed(r *results.Result) float64 { return *cmp.Or(r.Run.TimeCompression, new(1.)) }

// digits formats a number with six significant digits, or all digits before the point if there are more.
func digits(v float64) string {
	if math.Abs(v) >= 1e5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64)
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}
