// Package points converts merged results, records and events to points for sinks.
//
// The coordinator uses it while a run is in progress, and `spate export` uses it with the ledger later. Both write the
// same points, because the name and the time of a point follow from the ledger alone. This package does not measure or
// merge: packages merge and results have the numbers, package sink the schema.
package points

import (
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Run identifies a run in all its points.
type Run struct {
	// ID is the run's ID.
	ID string
	// Plan is the plan's name.
	Plan string
}

// Scope returns the scope of a stage as a whole.
func (r Run) Scope(st *spatev1.Stage) sink.Scope {
	return sink.Scope{
		RunID: r.ID, Plan: r.Plan, StageIndex: st.GetIndex(),
		Target: st.GetTarget().GetName(), Workload: st.GetWorkload().GetName(), Load: loadpoint.Words(st.GetLoad()),
		API: st.GetTarget().GetApi(), Model: st.GetTarget().GetModel(),
		Concurrency: st.GetLoad().GetConcurrency(), Rate: st.GetLoad().GetRate(),
	}
}
