package results

import (
	"iter"

	"github.com/spate-load/spate/aggregate/trust"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// RunVerdict returns the verdict on a run's measurements: the worst verdict of any stage. Of the probes of a search,
// only the one at the load that the search found counts: probes that did not meet the objectives are part of the
// search's answer, and probes that could not be measured were repeated. The verdict is empty if no stage was judged.
func RunVerdict(
	stages iter.Seq[*spatev1.StageRecord], searches []*spatev1.SearchRecord,
	verdictOf func(*spatev1.StageRecord) trust.Verdict,
) trust.Verdict {
	var worst trust.Verdict
	for rec := range stages {
		v := verdictOf(rec)
		if v != "" && (worst == "" || v.Worse(worst) != worst) && counts(rec, searches) {
			worst = v
		}
	}
	return worst
}

// counts reports whether a stage's verdict counts for the run.
func counts(rec *spatev1.StageRecord, searches []*spatev1.SearchRecord) bool {
	probe := rec.GetStage().GetProbe()
	for _, s := range searches {
		if probe != nil && s.GetSeries() == probe.GetSeries() {
			return s.Kept != nil && s.GetStageIndex() == rec.GetStage().GetIndex()
		}
	}
	return true
}
