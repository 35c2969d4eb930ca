package points

import (
	"cmp"
	"fmt"

	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Event converts an event to a point. It returns false if sinks have no use for the event. stage returns a stage by its
// index, or nil if it is not known.
func Event(run Run, e *spatev1.RunEvent, stage func(index uint32) *spatev1.Stage) (sink.EventPoint, bool) {
	p := sink.EventPoint{RunID: run.ID, Plan: run.Plan, Time: e.GetTime().AsTime()}
	scope := func(index uint32) *sink.Scope {
		st := stage(index)
		if st == nil {
			return nil
		}
		return new(run.Scope(st))
	}
	switch e := e.GetEvent().(type) {
	case *spatev1.RunEvent_RunStarted:
		p.Kind, p.Text = sink.RunStarted, "plan "+run.Plan+" begins"
	case *spatev1.RunEvent_RunEnded:
		p.Kind, p.Text = sink.RunEnded, cmp.Or(e.RunEnded.GetReason(), "plan "+run.Plan+" has ended")
	case *spatev1.RunEvent_StageStarted:
		p.Kind, p.Stage = sink.StageStarted, scope(e.StageStarted.GetStageIndex())
		p.Text = describeStage(p.Stage) + " begins"
	case *spatev1.RunEvent_StageEnded:
		p.Kind, p.Stage = sink.StageEnded, scope(e.StageEnded.GetStageIndex())
		p.Text = cmp.Or(e.StageEnded.GetFailure(), describeStage(p.Stage)+" has ended")
	case *spatev1.RunEvent_Notice:
		p.Kind, p.Text = sink.Warning, e.Notice.GetText()
		return p, e.Notice.GetSeverity() > spatev1.Severity_SEVERITY_INFO
	case *spatev1.RunEvent_AgentChanged:
		p = sink.AgentEvent(p, scope(e.AgentChanged.GetStageIndex()), e.AgentChanged)
	default:
		return p, false
	}
	return p, true
}

// describeStage returns the name of a stage for people who see it as a mark in a graph.
func describeStage(s *sink.Scope) string {
	if s == nil {
		return "a stage"
	}
	return fmt.Sprintf("stage %d (%s, %s, %s)", s.StageIndex+1, s.Target, s.Workload, s.Load)
}
