// Package leftover reads what a run that has not ended left in its ledger: the state from which a coordinator resumes
// it, or a person decides whether to.
//
// It knows nothing of coordinators. It writes only to rewind a run whose stage is measured again.
package leftover

import (
	"errors"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/live"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Run is a run that has not ended. The caller of Read closes its ledger.
type Run struct {
	// Ledger, Record and Submission are the run's own.
	Ledger     *ledger.Ledger
	Record     *spatev1.RunRecord
	Submission *spatev1.Submission
	// Checkpoint is the last state of the run's machine. Nil: the run has not begun.
	Checkpoint *spatev1.Checkpoint
	// Secrets are the values of the plan's references, if they were given on resuming.
	Secrets map[string]string
}

// Read reads the records from which a run is resumed. It closes the ledger if that fails.
func Read(ledger *ledger.Ledger) (*Run, error) {
	r, err := readRecords(ledger)
	if err != nil {
		return nil, errors.Join(err, ledger.Close())
	}
	return r, nil
}

// readRecords reads the run's record, submission and checkpoint.
func readRecords(ledger *ledger.Ledger) (*Run, error) {
	r := &Run{Ledger: ledger}
	var err1, err2, err3 error
	r.Record, err1 = ledger.Run()
	r.Submission, err2 = ledger.Submission()
	r.Checkpoint, err3 = ledger.Checkpoint()
	return r, errors.Join(err1, err2, err3)
}

// Submitted returns when the run was submitted.
func (r *Run) Submitted() time.Time {
	if t := r.Record.GetSubmitTime(); t != nil {
		return t.AsTime()
	}
	return r.Record.GetBeginTime().AsTime()
}

// GapNotice returns the notice that tells followers why the run has a gap.
func (r *Run) GapNotice() string {
	if r.Submission.GetLocal() {
		return "the run was interrupted and is resumed"
	}
	return "the coordinator was restarted; the run continues as soon as its agents are back"
}

// Memory returns what the machine needs to be restored. It calls known with the record of each stage.
func (r *Run) Memory(known func(*spatev1.StageRecord)) (lifecycle.Memory, error) {
	m := lifecycle.Memory{Submission: r.Submission, Checkpoint: r.Checkpoint}
	records, err := r.Ledger.Stages()
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
		o, err := live.Outcome(r.Ledger, rec, series.Asks(r.Checkpoint.GetTemplate().GetLoad()))
		if err != nil {
			return m, err
		}
		m.Outcomes = append(m.Outcomes, o)
	}
	return m, nil
}
