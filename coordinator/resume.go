package coordinator

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Interrupted describes a local run whose command died, for a person to see before anything is started.
type Interrupted struct {
	// Record and Submission are the run's own, from its ledger.
	Record     *spatev1.RunRecord
	Submission *spatev1.Submission
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
	err := ledger.Peek(filepath.Join(dir, ledger.File), func(ledger *ledger.Ledger) error {
		l, err := readRecords(ledger)
		if err != nil {
			return err
		}
		out, err = l.interrupted()
		return err
	})
	return out, err
}

// interrupted describes the run for the person who decides whether to resume it.
func (l *leftover) interrupted() (*Interrupted, error) {
	memory, again, err := l.rewound()
	if err != nil {
		return nil, err
	}
	out := &Interrupted{
		Record: l.record, Submission: l.submission, Agents: l.checkpoint.GetRoster(),
		Kept: memory.Checkpoint.GetBegun(), Again: again, Left: memory.Left(),
	}
	err = l.ledger.Events(0, func(e *spatev1.FollowRunResponse) error {
		out.LastEvent = e.GetNumber()
		return nil
	})
	return out, err
}

// resumable returns why a run cannot be resumed, nil if it can.
func (l *leftover) resumable() error {
	switch {
	case l.record.GetEndTime() != nil:
		return errors.New("the run has ended: nothing is left to resume")
	case l.submission == nil:
		return errors.New("the run was killed before it was accepted: run its plan again")
	case !l.submission.GetLocal():
		return errors.New("the run belongs to a coordinator: start spate-coordinator with the same --data-dir, and " +
			"it continues the run")
	}
	return nil
}

// rewound returns the state from which a run is resumed, and the stage that was in progress and is measured again, nil
// if there was none.
func (l *leftover) rewound() (lifecycle.Memory, *spatev1.Stage, error) {
	m := lifecycle.Memory{Submission: l.submission, Checkpoint: &spatev1.Checkpoint{}}
	if err := l.resumable(); err != nil || l.checkpoint == nil {
		return m, nil, err
	}
	m.Checkpoint = l.checkpoint
	stages, err := l.ledger.Stages()
	if err != nil {
		return m, nil, err
	}
	for _, rec := range stages {
		if rec.GetStage().GetIndex()+1 == l.checkpoint.GetBegun() {
			m.Stage = rec
		}
	}
	return m, m.Rewind(), nil
}

// Resumption holds what resuming an interrupted run needs besides its ledger.
type Resumption struct {
	// MinAgents is how many agents the run waits for.
	MinAgents uint32
	// Secrets are the values of the plan's references. They are never written to disk.
	Secrets map[string]string
	// Endpoints are the new endpoints of the targets that the simulator serves, by target. The simulator has been
	// restarted.
	Endpoints map[string][]string
}

// Resume resumes the interrupted run in RunDir, with new agents. It is called once, on a local coordinator, before
// Serve. It returns the run's id.
func (c *Coordinator) Resume(with Resumption) (id string, err error) {
	ledger, err := ledger.Open(c.storage.Ledger(""))
	if err != nil {
		return "", err
	}
	l, err := readLeftover(ledger)
	if err != nil {
		return "", err
	}
	if err := c.resume(l, with); err != nil {
		return "", errors.Join(fmt.Errorf("run %s cannot be resumed: %w", l.record.GetRunId(), err), ledger.Close())
	}
	return l.record.GetRunId(), nil
}

func (c *Coordinator) resume(l *leftover, with Resumption) error {
	if err := l.discardStage(); err != nil {
		return err
	}
	l.secrets = with.Secrets
	l.submission.MinAgents = with.MinAgents
	for _, st := range append(l.submission.GetPlan(), l.checkpoint.GetTemplate()) {
		if t := st.GetTarget(); len(with.Endpoints[t.GetName()]) > 0 {
			t.Endpoints = with.Endpoints[t.GetName()]
		}
	}
	if l.checkpoint != nil {
		return c.restore(l, clock.Now(), time.Now())
	}
	if err := c.requeue(l); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.beginNext()
	return nil
}

// discardStage rewinds the run in its ledger to before the stage in progress.
func (l *leftover) discardStage() error {
	memory, again, err := l.rewound()
	if err != nil || l.checkpoint == nil {
		return err
	}
	change := ledger.Change{Checkpoint: memory.Checkpoint}
	if again != nil {
		change.Discard = []uint32{again.GetIndex()}
	}
	l.checkpoint = memory.Checkpoint
	return l.ledger.Put(change)
}
