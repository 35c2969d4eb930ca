package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/events"
	"github.com/spate-load/spate/coordinator/leftover"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A coordinator resumes the runs in its data directory that have not ended: those that had begun, from where their
// ledgers stand, and the waiting runs when their turn comes. Local runs are left alone.

// bootID identifies this boot of the machine, during which the monotonic clock continues. Empty: it is not known.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// resumeRuns finds the runs that have not ended and resumes them. Runs that cannot be read are logged and left alone. A
// local coordinator resumes nothing here: its command names the one run it is about.
func (c *Coordinator) resumeRuns() error {
	if c.cfg.Local {
		return nil
	}
	if err := c.cordons.Load(c.cfg.DataDir); err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	c.audit.Open(c.cfg.DataDir)
	if err := c.openHistory(); err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	c.usePolicy(c.cfg.Access.Policy())
	defer c.catchUp() // only now is it known which runs continue
	ids, err := c.storage.IDs()
	if err != nil {
		return err
	}
	var left []*leftover.Run
	for _, id := range ids {
		var l *leftover.Run
		err := c.recovered(id, func() (err error) {
			l, err = c.openLeftover(id)
			return err
		})
		if err != nil {
			c.log.Error("run cannot be read and is left unchanged", "run", id, "error", err)
		} else if l != nil {
			left = append(left, l)
		}
	}
	slices.SortFunc(left, func(a, b *leftover.Run) int {
		return cmp.Or(a.Submitted().Compare(b.Submitted()), strings.Compare(a.Record.GetRunId(), b.Record.GetRunId()))
	})
	for _, l := range left {
		c.resumeOrQueue(l)
	}
	for _, written := range c.beginResumed() {
		<-written
	}
	return nil
}

// beginResumed begins the waiting runs that can begin. The channels are closed when the new state of the runs is
// durable.
func (c *Coordinator) beginResumed() (written []<-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allot(clock.Now())
	for _, r := range c.runs {
		written = append(written, c.written(r))
	}
	return written
}

// openLeftover opens the ledger of a run that has not ended and can be resumed. It returns nil for other runs.
func (c *Coordinator) openLeftover(id string) (*leftover.Run, error) {
	resumable := false
	err := ledger.Peek(c.storage.Ledger(id), func(l *ledger.Ledger) error {
		record, err1 := l.Run()
		submission, err2 := l.Submission()
		resumable = record.GetEndTime() == nil && len(submission.GetPlan()) > 0 && record.GetRunId() == id
		if resumable && submission.GetLocal() {
			resumable = false
			c.log.Info("interrupted local run is left alone: resume it with spate resume", "directory", c.storage.Dir(id))
		}
		return errors.Join(err1, err2)
	})
	if err != nil || !resumable {
		return nil, err
	}
	ledger, err := ledger.Open(c.storage.Ledger(id))
	if err != nil {
		return nil, err
	}
	return leftover.Read(ledger)
}

// resumeOrQueue resumes a run that had begun, or queues a run that had not. It closes the ledger of a run that cannot
// be resumed.
func (c *Coordinator) resumeOrQueue(l *leftover.Run) {
	id := l.Record.GetRunId()
	err := c.recovered(id, func() error {
		if l.Checkpoint == nil {
			return c.requeue(l)
		}
		return c.restore(l, clock.Now(), time.Now())
	})
	if err != nil {
		c.log.Error("run cannot be resumed and is left unchanged", "run", id,
			"error", errors.Join(err, l.Ledger.Close()))
	}
}

// levelOf returns the log level of the message that a run is continued. Resuming a local run was requested, so it is no
// warning.
func levelOf(l *leftover.Run) slog.Level {
	if l.Submission.GetLocal() {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// loadRun makes a run from its ledger, with its events.
func (c *Coordinator) loadRun(l *leftover.Run, beyond uint64) (*run, error) {
	var earlier []*spatev1.FollowRunResponse
	err := l.Ledger.Events(0, func(e *spatev1.FollowRunResponse) error {
		earlier = append(earlier, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	r := c.makeRun(l.Record, l.Submission, l.Ledger)
	r.events, r.secrets = events.New(earlier, beyond), l.Secrets
	c.storage.Reserve(r.id).Hold(c.log)
	return r, nil
}

// requeue queues a run that was waiting. A run that needs secrets ends as failed if they are not known, since they are
// never written to disk.
func (c *Coordinator) requeue(l *leftover.Run) error {
	r, err := c.loadRun(l, 0)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosing
	}
	c.remember(r)
	if refs := l.Submission.GetReferences(); len(refs) > len(l.Secrets) {
		c.endWaiting(r, spatev1.Outcome_OUTCOME_FAILED,
			fmt.Sprintf("the coordinator was restarted while the run waited, and the values of %s, "+
				"which it keeps in memory only, are gone: submit the run again", strings.Join(refs, ", ")))
		return nil
	}
	c.wait(r)
	c.log.Info("run still waits", "run", r.id)
	return nil
}

// restartStride separates the event numbers of one coordinator process from those of the next. Progress events are
// numbered but not kept, so the next process cannot know which numbers followers have seen.
const restartStride = 1 << 32

// restore resumes a run that had begun.
func (c *Coordinator) restore(l *leftover.Run, now clock.Instant, wall time.Time) error {
	l.Record.Restarts++
	r, err := c.loadRun(l, uint64(l.Record.GetRestarts())*restartStride)
	if err != nil {
		return err
	}
	memory, err := l.Memory(r.stages.PutEarlier)
	if err != nil {
		return err
	}
	c.placeStart(memory, now, wall)
	if r.machine, err = lifecycle.Restore(c.machineConfig(r), r.id, memory, now, wall); err != nil {
		return err
	}
	c.openSink(r) // before anything is merged
	r.unsaved = true
	rebuild := func() error { return r.rebuild(memory.Stage, l.Checkpoint.GetPhase() == "closing") }
	if err := c.recovered(r.id, rebuild); err != nil {
		return errors.Join(err, r.sink.Close(context.Background()))
	}
	c.restarts.Add(1)
	c.log.Log(context.Background(), levelOf(l), "run resumed", "run", r.id, "phase", l.Checkpoint.GetPhase(),
		"stages_begun", l.Checkpoint.GetBegun(), "restarts", l.Record.GetRestarts())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.Join(errClosing, r.sink.Close(context.Background()))
	}
	c.active = append(c.active, r)
	for _, info := range l.Checkpoint.GetRoster() {
		if name := info.GetName(); c.runOf(name) == nil {
			c.taken[name] = taken{r, info}
		}
	}
	c.remember(r)
	c.workers.Go(func() { c.work(r) })
	c.feedAt(r, now, func(r *run, at clock.Instant) {
		r.machine.Warn(at, l.GapNotice())
		r.machine.Resume(at)
		for name, said := range c.cordons.All() {
			r.machine.Cordon(at, name, said.Is)
		}
	})
	return nil
}

// placeStart converts the start of the stage in progress to this boot's monotonic clock. During the same boot the start
// stays as it is. After a reboot it is derived from the wall clock, which is as exact as the machines' wall clocks
// agree.
func (c *Coordinator) placeStart(m lifecycle.Memory, now clock.Instant, wall time.Time) {
	if m.Checkpoint.GetStartClockNs() == 0 || c.boot != "" && m.Checkpoint.GetBootId() == c.boot {
		return
	}
	m.Checkpoint.StartClockNs = int64(now.Add(m.Stage.GetStartTime().AsTime().Sub(wall)))
}

// rebuild merges the ledger's snapshots of the stage in progress and tells the machine of each. A stage that has ended
// counts as in progress while its result is being computed.
func (r *run) rebuild(rec *spatev1.StageRecord, closing bool) error {
	if rec == nil || rec.GetEnded() && !closing {
		return nil
	}
	return r.stages.Rebuild(r.ledger, rec, r.machine.Recall)
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
	l, err := leftover.Read(ledger)
	if err != nil {
		return "", err
	}
	if err := c.resume(l, with); err != nil {
		return "", errors.Join(fmt.Errorf("run %s cannot be resumed: %w", l.Record.GetRunId(), err), ledger.Close())
	}
	return l.Record.GetRunId(), nil
}

func (c *Coordinator) resume(l *leftover.Run, with Resumption) error {
	if err := l.DiscardStage(); err != nil {
		return err
	}
	l.Secrets = with.Secrets
	l.Submission.MinAgents = with.MinAgents
	for _, st := range append(l.Submission.GetPlan(), l.Checkpoint.GetTemplate()) {
		if t := st.GetTarget(); len(with.Endpoints[t.GetName()]) > 0 {
			t.Endpoints = with.Endpoints[t.GetName()]
		}
	}
	if l.Checkpoint != nil {
		return c.restore(l, clock.Now(), time.Now())
	}
	if err := c.requeue(l); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.allot(clock.Now())
	return nil
}
