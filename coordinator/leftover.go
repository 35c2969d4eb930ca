package coordinator

import (
	"cmp"
	"errors"
	"path/filepath"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/live"
	"github.com/spate-load/spate/coordinator/series"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// leftoverRun is a run that has not ended, as its ledger has it.
type leftoverRun struct {
	// record and submission are the run's own.
	record     *spatev1.RunRecord
	submission *spatev1.Submission
	// checkpoint is the last state of the run's machine. Nil: the run has not begun.
	checkpoint *spatev1.Checkpoint
	// events are the run's events so far.
	events []*spatev1.FollowRunResponse
	// secrets are the values of the plan's references, if they were given on resuming.
	secrets map[string]string
}

// readLeftover reads what a run is resumed from, but for its measurements. The ledger may be open for a Peek only.
func readLeftover(l *ledger.Ledger) (*leftoverRun, error) {
	r := &leftoverRun{}
	var err1, err2, err3 error
	r.record, err1 = l.Run()
	r.submission, err2 = l.Submission()
	r.checkpoint, err3 = l.Checkpoint()
	return r, errors.Join(err1, err2, err3, l.Events(0, func(e *spatev1.FollowRunResponse) error {
		r.events = append(r.events, e)
		return nil
	}))
}

// submitted returns when the run was submitted.
func (r *leftoverRun) submitted() time.Time {
	return cmp.Or(r.record.GetSubmitTime(), r.record.GetBeginTime()).AsTime()
}

// gapNotice returns the notice that tells followers why the run has a gap.
func (r *leftoverRun) gapNotice() string {
	if r.submission.GetLocal() {
		return "the run was interrupted and is resumed"
	}
	return "the coordinator was restarted; the run continues as soon as its agents are back"
}

// begun returns the state of a run that had begun, with its last stage, and the records of all stages by index.
func (r *leftoverRun) begun(l *ledger.Ledger) (lifecycle.Memory, map[uint32]*spatev1.StageRecord, error) {
	stages, err := l.Stages()
	records := map[uint32]*spatev1.StageRecord{}
	for _, rec := range stages {
		records[rec.GetStage().GetIndex()] = rec
	}
	last := records[r.checkpoint.GetBegun()-1] // nil if no stage had begun: there is no such index
	return lifecycle.Memory{Submission: r.submission, Checkpoint: r.checkpoint, Stage: last}, records, err
}

// memory returns what the machine needs to be restored, but for what the stage in progress has delivered. It calls
// known with the record of each stage, and merges the probes of a search in progress.
func (r *leftoverRun) memory(l *ledger.Ledger, known func(*spatev1.StageRecord)) (lifecycle.Memory, error) {
	m, records, err := r.begun(l)
	if err != nil {
		return m, err
	}
	for _, rec := range records {
		known(rec)
	}
	for _, p := range r.checkpoint.GetProbes() {
		rec := records[p.GetStageIndex()]
		if rec == nil {
			return m, errors.New("the record of a probe is missing")
		}
		o, err := live.Outcome(l, rec, series.Asks(r.checkpoint.GetTemplate().GetLoad()))
		if err != nil {
			return m, err
		}
		m.Outcomes = append(m.Outcomes, o)
	}
	return m, nil
}

// Interrupted describes a local run whose command died, for a person to see before anything is started.
type Interrupted struct {
	// Record is the run's own, from its ledger.
	Record *spatev1.RunRecord
	// Agents took part in the run. Empty: the run had not begun.
	Agents []*spatev1.AgentInfo
	// Kept is the number of stages whose measurements are kept.
	Kept uint32
	// Left are the stages and templates still to be run, with the one that was in progress.
	Left []*spatev1.Stage
	// LastEvent is the number of the run's last event.
	LastEvent uint64
}

// ReadInterrupted reads the interrupted local run in a run directory, and changes nothing. It returns an error that
// says why if the run cannot be resumed.
func ReadInterrupted(dir string) (*Interrupted, error) {
	var out *Interrupted
	err := ledger.Peek(filepath.Join(dir, ledger.File), func(l *ledger.Ledger) error {
		r, err := readLeftover(l)
		if err != nil {
			return err
		}
		out, err = r.interrupted(l)
		return err
	})
	return out, err
}

// interrupted describes the run for the person who decides whether to resume it.
func (r *leftoverRun) interrupted(l *ledger.Ledger) (*Interrupted, error) {
	memory, _, err := r.rewound(l)
	if err != nil {
		return nil, err
	}
	out := &Interrupted{
		Record: r.record, Agents: r.checkpoint.GetRoster(),
		Kept: memory.Checkpoint.GetBegun(), Left: memory.Left(),
	}
	if n := len(r.events); n > 0 {
		out.LastEvent = r.events[n-1].GetNumber()
	}
	return out, nil
}

// resumable returns why a run cannot be resumed, nil if it can.
func (r *leftoverRun) resumable() error {
	switch {
	case r.record.GetEndTime() != nil:
		return errors.New("the run has ended, and only a run that was killed can continue: run its plan.yaml again")
	case r.submission == nil:
		return errors.New("the run was killed before it was accepted: run its plan again")
	case !r.submission.GetLocal():
		return errors.New("the run belongs to a coordinator: start spate-coordinator with the same --data-dir, and " +
			"it continues the run")
	}
	return nil
}

// rewound returns the state from which a run is resumed, and the stage that was in progress and is measured again, nil
// if there was none.
func (r *leftoverRun) rewound(l *ledger.Ledger) (lifecycle.Memory, *spatev1.Stage, error) {
	if err := r.resumable(); err != nil || r.checkpoint == nil {
		return lifecycle.Memory{Submission: r.submission, Checkpoint: &spatev1.Checkpoint{}}, nil, err
	}
	m, _, err := r.begun(l)
	if err != nil {
		return m, nil, err
	}
	return m, m.Rewind(), nil
}

// discardStage rewinds the run in its ledger to before the stage in progress.
func (r *leftoverRun) discardStage(l *ledger.Ledger) error {
	memory, again, err := r.rewound(l)
	if err != nil || r.checkpoint == nil {
		return err
	}
	change := ledger.Change{Checkpoint: memory.Checkpoint}
	if again != nil {
		change.Discard = []uint32{again.GetIndex()}
	}
	r.checkpoint = memory.Checkpoint
	return l.Put(change)
}
