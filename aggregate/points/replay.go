package points

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Progress is how far a replay has got.
type Progress struct {
	// Stage is the number of the stage in progress, from 1. Stages is how many there are.
	Stage, Stages int
	// Window is the last window of this stage that was emitted.
	Window uint32
}

// Replay emits all points of a run from its ledger, as a sink received them during the run: events, windows, views to
// date, results and start errors of agents. It differs where the sink could not wait: a window also contains what
// arrived too late for it, and every window has a view to date. Ledgers have no heartbeats. Replay calls show after
// each window, and stops at the first error of emit or show.
func Replay(l *ledger.Ledger, emit func([]sink.Row) error, show func(Progress) error) error {
	run, err1 := l.Run()
	submission, err2 := l.Submission()
	records, err3 := l.Stages()
	if err := errors.Join(err1, err2, err3); err != nil {
		return err
	}
	r := replay{run: Run{ID: run.GetRunId(), Plan: submission.GetName()}, ledger: l, emit: emit, show: show}
	if err := r.events(records); err != nil {
		return err
	}
	for i, rec := range records {
		r.progress = Progress{Stage: i + 1, Stages: len(records)}
		if err := r.stage(rec); err != nil {
			return err
		}
	}
	return nil
}

// ReplayEnded is Replay of the ledger at a path, if the run has ended. It returns false, and emits nothing, if the run
// has not ended, or if its ledger is still in use.
func ReplayEnded(path string, emit func([]sink.Row) error) (ended bool, err error) {
	l, err := ledger.OpenReadOnly(path)
	if errors.Is(err, ledger.ErrLocked) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer func() { _ = l.Close() }() // opened for reading only
	run, err := l.Run()
	if err != nil || run.GetEndTime() == nil {
		return false, err
	}
	return true, Replay(l, emit, func(Progress) error { return nil })
}

type replay struct {
	run      Run
	ledger   *ledger.Ledger
	emit     func([]sink.Row) error
	show     func(Progress) error
	progress Progress
}

// events emits the events that sinks use.
func (r *replay) events(records []*spatev1.StageRecord) error {
	stages := map[uint32]*spatev1.Stage{}
	for _, rec := range records {
		stages[rec.GetStage().GetIndex()] = rec.GetStage()
	}
	return r.ledger.Events(0, func(e *spatev1.FollowRunResponse) error {
		p, ok := Event(r.run, e.GetEvent(), func(index uint32) *spatev1.Stage { return stages[index] })
		if !ok {
			return nil
		}
		return r.emit(p.Rows())
	})
}

// stage merges a stage window by window, emits each window, and then the result if the stage has ended. A stage that
// never started has no points.
func (r *replay) stage(rec *spatev1.StageRecord) error {
	if rec.GetStartTime() == nil {
		return nil
	}
	s := stageReplay{replay: r, rec: rec, merged: merge.NewStage(rec)}
	last := uint32(0)
	err := r.ledger.ByWindow(rec.GetStage().GetIndex(), func(snapshot *spatev1.Snapshot) error {
		last = snapshot.GetWindow()
		if err := s.before(last); err != nil {
			return err
		}
		return s.merged.Add(snapshot)
	})
	if err != nil {
		return err
	}
	if err := s.before(last + 1); err != nil || !rec.GetEnded() {
		return err
	}
	return r.emitAll(EndOfStage(r.run, rec, results.OfStage(s.merged, rec), s.merged))
}

// emitAll emits points.
func (r *replay) emitAll(points []sink.Point) error {
	for _, p := range points {
		if err := r.emit(p.Rows()); err != nil {
			return err
		}
	}
	return nil
}

// stageReplay emits the windows of a stage.
type stageReplay struct {
	*replay
	rec    *spatev1.StageRecord
	merged *merge.Stage
	next   uint32 // first window that was not emitted yet
	bursts Bursts
}

// before emits the windows before window, which are completely merged.
func (s *stageReplay) before(window uint32) error {
	for ; s.next < window; s.next++ {
		if err := s.emitAll(Window(s.run, s.rec, s.merged, s.next, &s.bursts)); err != nil {
			return err
		}
		s.merged.Forget(s.next)
		s.progress.Window = s.next
		if err := s.show(s.progress); err != nil {
			return err
		}
	}
	return nil
}

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
