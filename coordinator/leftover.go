package coordinator

import (
	"errors"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/live"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// leftoverRun is a run that has not ended, as its ledger has it.
type leftoverRun struct {
	// Record and Submission are the run's own.
	Record     *spatev1.RunRecord
	Submission *spatev1.Submission
	// Checkpoint is the last state of the run's machine. Nil: the run has not begun.
	Checkpoint *spatev1.Checkpoint
	// Events are the run's events so far.
	Events []*spatev1.FollowRunResponse
	// Secrets are the values of the plan's references, if they were given on resuming.
	Secrets map[string]string
}

// readLeftover reads what a run is resumed from, but for its measurements. The ledger may be open for a Peek only.
func readLeftover(l *ledger.Ledger) (*leftoverRun, error) {
	r := &leftoverRun{}
	var err1, err2, err3 error
	r.Record, err1 = l.Run()
	r.Submission, err2 = l.Submission()
	r.Checkpoint, err3 = l.Checkpoint()
	return r, errors.Join(err1, err2, err3, l.Events(0, func(e *spatev1.FollowRunResponse) error {
		r.Events = append(r.Events, e)
		return nil
	}))
}

// Submitted returns when the run was submitted.
func (r *leftoverRun) Submitted() time.Time {
	if t := r.Record.GetSubmitTime(); t != nil {
		return t.AsTime()
	}
	return r.Record.GetBeginTime().AsTime()
}

// GapNotice returns the notice that tells followers why the run has a gap.
func (r *leftoverRun) GapNotice() string {
	if r.Submission.GetLocal() {
		return "the run was interrupted and is resumed"
	}
	return "the coordinator was restarted; the run continues as soon as its agents are back"
}

// Memory returns what the machine needs to be restored, but for what the stage in progress has delivered. It calls
// known with the record of each stage, and merges the probes of a search in progress.
func (r *leftoverRun) Memory(l *ledger.Ledger, known func(*spatev1.StageRecord)) (lifecycle.Memory, error) {
	m := lifecycle.Memory{Submission: r.Submission, Checkpoint: r.Checkpoint}
	records, err := l.Stages()
	if err != nil {
		return m, err
	}
	byIndex := map[uint32]*spatev1.StageRecord{}
	for _, rec := range records {
		byIndex[rec.GetStage().GetIndex()] = rec
		known(rec)
	}
	if begun := r.Checkpoint.GetBegun(); begun > 0 {
		m.Stage = byIndex[begun-1]
	}
	for _, p := range r.Checkpoint.GetProbes() {
		rec := byIndex[p.GetStageIndex()]
		if rec == nil {
			return m, errors.New("the record of a probe is missing")
		}
		o, err := live.Outcome(l, rec, series.Asks(r.Checkpoint.GetTemplate().GetLoad()))
		if err != nil {
			return m, err
		}
		m.Outcomes = append(m.Outcomes, o)
	}
	return m, nil
}
