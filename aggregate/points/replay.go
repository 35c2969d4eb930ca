package points

import (
	"errors"

	"github.com/spate-load/spate/aggregate"
	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Progress says how far a replay is.
type Progress struct {
	// Stage and Stages are the stage under way, from 1, and how many there are.
	Stage, Stages int
	// Window is the last window of it that was handed on.
	Window uint32
}

// Replay hands on all points of a run as a sink got them while it went on, from its ledger: events, windows, what came
// to date, results and how far off agents started. It differs where the sink could not wait: what came too late for its
// window is in it, and what came to date is there for every window. Heartbeats are in no ledger. emit and show stop it
// with their first error; show is told after each window.
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

type replay struct {
	run      Run
	ledger   *ledger.Ledger
	emit     func([]sink.Row) error
	show     func(Progress) error
	progress Progress
}

// events hands on the events that sinks have a use for.
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

// stage merges a stage window by window, and hands on each as it was shown. A stage that never started has no points.
func (r *replay) stage(rec *spatev1.StageRecord) error {
	if rec.GetStartTime() == nil {
		return nil
	}
	s := shower{replay: r, rec: rec, scope: r.run.Scope(rec.GetStage()), merged: aggregate.NewStage(rec)}
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
	if err := s.before(last + 1); err != nil {
		return err
	}
	return s.end()
}

// shower hands on the windows of a stage.
type shower struct {
	*replay
	rec    *spatev1.StageRecord
	scope  sink.Scope
	merged *aggregate.Stage
	next   uint32 // first window that was not handed on
	bursts Bursts
}

// before hands on the windows before one: all of them is merged.
func (s *shower) before(window uint32) error {
	for ; s.next < window; s.next++ {
		if err := s.window(s.next); err != nil {
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

// window hands on one window, if anything came in it.
func (s *shower) window(number uint32) error {
	view, ok := s.merged.Window(number)
	if !ok {
		return nil
	}
	var toDate *aggregate.View
	if v, ok := s.merged.ToDateOf(number); ok {
		toDate = &v
	}
	for _, p := range Windows(s.scope, s.rec, view, toDate) {
		if err := s.emit(p.Rows()); err != nil {
			return err
		}
	}
	for _, p := range Servers(s.scope, s.rec, view) {
		if err := s.emit(p.Rows()); err != nil {
			return err
		}
	}
	if p, ok := s.bursts.See(s.run, s.scope, s.rec, view); ok {
		return s.emit(p.Rows())
	}
	return nil
}

// end hands on the stage's result. One that has not ended has none.
func (s *shower) end() error {
	if !s.rec.GetEnded() {
		return nil
	}
	result := s.merged.Result(s.rec)
	for _, p := range Stage(s.scope, s.rec, result, s.merged.ToDate()) {
		if err := s.emit(p.Rows()); err != nil {
			return err
		}
	}
	for _, p := range Starts(s.run, s.rec, result) {
		if err := s.emit(p.Rows()); err != nil {
			return err
		}
	}
	return nil
}
