package coordinator

import (
	"errors"
	"path/filepath"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Interrupted describes a local run whose command died, for a person to see before anything is started.
type Interrupted struct {
	// Record is the run's own, from its ledger.
	Record *spatev1.RunRecord
	// Agents took part in the run. Empty: the run had not begun.
	Agents []*spatev1.AgentInfo
	// Kept is the number of stages whose measurements are kept.
	Kept uint32
	// Again is the stage that was in progress. It is measured again from its start. Nil: no stage was in progress.
	Again *spatev1.Stage
	// Left are the stages and templates still to be run. Again is among them.
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
	memory, again, err := r.rewound(l)
	if err != nil {
		return nil, err
	}
	out := &Interrupted{
		Record: r.Record, Agents: r.Checkpoint.GetRoster(),
		Kept: memory.Checkpoint.GetBegun(), Again: again, Left: memory.Left(),
	}
	if n := len(r.Events); n > 0 {
		out.LastEvent = r.Events[n-1].GetNumber()
	}
	return out, nil
}

// resumable returns why a run cannot be resumed, nil if it can.
func (r *leftoverRun) resumable() error {
	switch {
	case r.Record.GetEndTime() != nil:
		return errors.New("the run has ended: nothing is left to resume")
	case r.Submission == nil:
		return errors.New("the run was killed before it was accepted: run its plan again")
	case !r.Submission.GetLocal():
		return errors.New("the run belongs to a coordinator: start spate-coordinator with the same --data-dir, and " +
			"it continues the run")
	}
	return nil
}

// rewound returns the state from which a run is resumed, and the stage that was in progress and is measured again, nil
// if there was none.
func (r *leftoverRun) rewound(l *ledger.Ledger) (lifecycle.Memory, *spatev1.Stage, error) {
	m := lifecycle.Memory{Submission: r.Submission, Checkpoint: &spatev1.Checkpoint{}}
	if err := r.resumable(); err != nil || r.Checkpoint == nil {
		return m, nil, err
	}
	m.Checkpoint = r.Checkpoint
	stages, err := l.Stages()
	if err != nil {
		return m, nil, err
	}
	for _, rec := range stages {
		if rec.GetStage().GetIndex()+1 == r.Checkpoint.GetBegun() {
			m.Stage = rec
		}
	}
	return m, m.Rewind(), nil
}

// DiscardStage rewinds the run in its ledger to before the stage in progress.
func (r *leftoverRun) DiscardStage(l *ledger.Ledger) error {
	memory, again, err := r.rewound(l)
	if err != nil || r.Checkpoint == nil {
		return err
	}
	change := ledger.Change{Checkpoint: memory.Checkpoint}
	if again != nil {
		change.Discard = []uint32{again.GetIndex()}
	}
	r.Checkpoint = memory.Checkpoint
	return l.Put(change)
}
