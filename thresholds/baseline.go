package thresholds

import (
	"fmt"

	"github.com/spate-load/spate/aggregate/results"
)

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
	for i := range base.Stages {
		b := &base.Stages[i]
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
func speed(r *results.Result) float64 {
	if r.Run.TimeCompression == nil {
		return 1
	}
	return *r.Run.TimeCompression
}
