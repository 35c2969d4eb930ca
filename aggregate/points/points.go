// Package points turns merged results, records and events into points for sinks.
//
// The coordinator does so while a run goes on, and `spate export` from its ledger later. Both go through here, so that
// both write the same points: what names a point, and its time, follow from the ledger alone. Nothing here measures or
// merges: package aggregate has the numbers, package sink the schema.
package points

import (
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Run names a run in all its points.
type Run struct {
	// ID is the run's id.
	ID string
	// Plan is the plan's name.
	Plan string
}

// Scope names the series of a stage as a whole.
func (r Run) Scope(st *spatev1.Stage) sink.Scope {
	return sink.Scope{
		RunID: r.ID, Plan: r.Plan, StageIndex: st.GetIndex(),
		Target: st.GetTarget().GetName(), Workload: st.GetWorkload().GetName(), Load: plans.LoadWords(st.GetLoad()),
		Concurrency: st.GetLoad().GetConcurrency(), Rate: st.GetLoad().GetRate(),
	}
}
