package aggregate

import (
	"iter"

	"github.com/spate-load/spate/aggregate/trust"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// RunVerdict is the verdict on a run's measurements: the worst of its stages'. Of a search's probes only the one at the
// load that it found counts: those at which the server broke are its answer, and those that could not be measured were
// made again. Empty: no stage was judged.
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

// counts reports whether a stage's verdict is one on the run.
func counts(rec *spatev1.StageRecord, searches []*spatev1.SearchRecord) bool {
	probe := rec.GetStage().GetProbe()
	for _, s := range searches {
		if probe != nil && s.GetSeries() == probe.GetSeries() {
			return s.Kept != nil && s.GetStageIndex() == rec.GetStage().GetIndex()
		}
	}
	return true
}
