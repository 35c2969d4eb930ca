package coordinator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/live"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A coordinator resumes the runs in its data directory that have not ended: those that had begun, from where their
// ledgers stand, and the waiting runs when their turn comes. Local runs are left alone.
//
// A run that had begun is known from the start, with its agents, and rebuilt while the coordinator serves, because that
// takes time in proportion to what its stage has measured. Until then it has no machine. Heartbeats of its agents are
// answered, which renews their leases, its agents keep their snapshots, and a call that stops it waits. Its time begins
// when it is rebuilt, so nothing is decided about an agent because the coordinator was reading.

// resumeRuns finds the runs that have not ended and resumes them. Runs that cannot be read are logged and left alone. A
// local coordinator resumes nothing here: its command names the one run it is about.
func (c *Coordinator) resumeRuns() error {
	if c.cfg.Local {
		return nil
	}
	if err := c.fleet.Cordons.Load(c.cfg.DataDir); err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	c.audit.Open(c.cfg.DataDir)
	c.openHistory()
	defer c.catchUp() // only now is it known which runs continue
	ids, err := c.storage.IDs()
	if err != nil {
		return err
	}
	var left []*leftoverRun
	for _, id := range ids {
		var l *leftoverRun
		err := c.recovered(id, func() (err error) {
			l, err = c.findLeftover(id)
			return err
		})
		if err != nil {
			c.log.Error("run cannot be read and is left unchanged", "run", id, "error", err)
		} else if l != nil {
			left = append(left, l)
		}
	}
	slices.SortFunc(left, func(a, b *leftoverRun) int {
		return cmp.Or(a.submitted().Compare(b.submitted()), strings.Compare(a.record.GetRunId(), b.record.GetRunId()))
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
	c.queue.allot(clock.Now())
	for _, r := range c.queue.runs {
		written = append(written, r.written())
	}
	return written
}

// findLeftover reads the records of a run that has not ended and can be resumed. It returns nil for other runs. It
// reads no measurements, so it takes as long for a long run as for a short one.
func (c *Coordinator) findLeftover(id string) (found *leftoverRun, err error) {
	err = ledger.Peek(c.storage.Ledger(id), func(l *ledger.Ledger) error {
		if record, err := l.Run(); err != nil || record.GetEndTime() != nil || record.GetRunId() != id {
			return err
		}
		r, err := readLeftover(l)
		switch {
		case err != nil || len(r.submission.GetPlan()) == 0:
		case r.submission.GetLocal():
			c.log.Info("interrupted local run is left alone: resume it with spate runs resume", "directory", c.storage.Dir(id))
		default:
			found = r
		}
		return err
	})
	return found, err
}

// resumeOrQueue begins to rebuild a run that had begun, or queues a run that had not.
func (c *Coordinator) resumeOrQueue(l *leftoverRun) {
	if l.checkpoint == nil {
		id := l.record.GetRunId()
		err := c.recovered(id, func() error {
			opened, err := ledger.Open(c.storage.Ledger(id))
			if err != nil {
				return err
			}
			if err := c.requeue(l, opened); err != nil {
				return errors.Join(err, opened.Close())
			}
			return nil
		})
		if err != nil {
			c.log.Error("run cannot be resumed and is left unchanged", "run", id, "error", err)
		}
		return
	}
	r := c.loadBegun(l)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.queue.resume(r, l.checkpoint.GetRoster())
		c.workers.Go(func() { _ = c.rebuild(r, l, nil) }) // which logs why it could not
	}
}

// loadRun makes a run from its records. New events get numbers beyond a number.
func (c *Coordinator) loadRun(l *leftoverRun, beyond uint64) *run {
	r := newRun(&c.ground, c, l.record, l.submission)
	r.events, r.secrets = live.NewEventLog(l.events, beyond), l.secrets
	return r
}

// requeue queues a run that was waiting. A run that needs secrets ends as failed if they are not known, since they are
// never written to disk.
func (c *Coordinator) requeue(l *leftoverRun, opened *ledger.Ledger) error {
	r := c.loadRun(l, 0)
	r.setLedger(opened)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosing
	}
	if refs := l.submission.GetReferences(); len(refs) > len(l.secrets) {
		c.queue.remember(r)
		r.endWaiting(spatev1.Outcome_OUTCOME_FAILED,
			fmt.Sprintf("the coordinator was restarted while the run waited, and the values of %s, "+
				"which it keeps in memory only, are gone: submit the run again", strings.Join(refs, ", ")))
		return nil
	}
	c.queue.wait(r)
	c.log.Info("run still waits", "run", r.id)
	return nil
}

// restartStride separates the event numbers of one coordinator process from those of the next. Progress events are
// numbered but not kept, so the next process cannot know which numbers followers have seen.
const restartStride = 1 << 32

// loadBegun makes a run that had begun from its records.
func (c *Coordinator) loadBegun(l *leftoverRun) *run {
	l.record.Restarts++
	r := c.loadRun(l, uint64(l.record.GetRestarts())*restartStride)
	r.rebuilt, r.unsaved = make(chan struct{}), true
	return r
}

// rebuild reads the ledger of a registered run, which it opens unless it is open, and continues the run. If it cannot,
// it closes the ledger, logs why, and leaves the run as it is.
func (c *Coordinator) rebuild(r *run, l *leftoverRun, opened *ledger.Ledger) error {
	begin := time.Now()
	err := c.recovered(r.id, func() (err error) {
		c.rebuilds(r.id)
		if opened == nil {
			if opened, err = ledger.Open(c.storage.Ledger(r.id)); err != nil {
				return err
			}
		}
		r.setLedger(opened)
		memory, err := c.readBegun(r, l)
		if err != nil {
			return err
		}
		return c.resume(r, l, memory, time.Since(begin))
	})
	if err == nil {
		return nil
	}
	if opened != nil {
		err = errors.Join(err, opened.Close(), r.sink.Close(context.Background()))
	}
	if !errors.Is(err, errClosing) {
		c.log.Error("run cannot be resumed and is left unchanged", "run", r.id, "error", err)
	}
	c.giveUp(r)
	return err
}

// readBegun merges what the ledger has of the stage in progress, and returns what the machine needs. A stage that has
// ended counts as in progress while its result is being computed.
func (c *Coordinator) readBegun(r *run, l *leftoverRun) (lifecycle.Memory, error) {
	memory, err := l.memory(r.ledger, r.stages.PutEarlier)
	if err != nil {
		return memory, err
	}
	r.openSink() // before anything is merged
	rec := memory.Stage
	if rec == nil || rec.GetEnded() && l.checkpoint.GetPhase() != "closing" {
		return memory, nil
	}
	memory.Delivered = lifecycle.NewDelivered(rec)
	return memory, r.stages.Rebuild(r.ledger, rec, func(s *spatev1.Snapshot) error {
		memory.Delivered.Add(s)
		if c.leaves() {
			return errClosing
		}
		return nil
	})
}

// resume continues a run that was read, with the agents that are connected.
func (c *Coordinator) resume(r *run, l *leftoverRun, memory lifecycle.Memory, took time.Duration) error {
	now := clock.Now()
	wall := clock.WallTime(now)
	c.placeStart(memory, now, wall)
	machine, err := lifecycle.Restore(r.machineConfig(), r.id, memory, now, wall)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosing
	}
	r.machine = machine
	close(r.rebuilt)
	c.restarts.Add(1)
	level := slog.LevelWarn
	if l.submission.GetLocal() { // resuming it was requested
		level = slog.LevelInfo
	}
	c.log.Log(context.Background(), level, "run resumed", "run", r.id, "phase", l.checkpoint.GetPhase(),
		"stages_begun", l.checkpoint.GetBegun(), "restarts", l.record.GetRestarts(), "read_in", took)
	c.workers.Go(r.work)
	r.feedAt(now, func(m *lifecycle.Run, at clock.Instant) {
		m.Warn(at, l.gapNotice())
		m.Resume(at)
		for name, said := range c.fleet.Cordons.All() {
			m.Cordon(at, name, said)
		}
	})
	for _, s := range c.fleet.Sessions() {
		if c.fleet.RunOf(s.Name()) == r.id {
			r.connected(s)
		}
	}
	c.queue.allot(now)
	return nil
}

// giveUp forgets a run that cannot be rebuilt, and tells its agents to stop.
func (c *Coordinator) giveUp(r *run) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.remove(r)
	c.queue.forget(r.id)
	r.over()
	if c.closed {
		return // the next coordinator tries again
	}
	for _, s := range c.fleet.Sessions() {
		if s.Hello.GetResume().GetRunId() == r.id {
			c.stopStale(s)
		}
	}
	c.queue.allot(clock.Now())
}

// errReading ends the stream of an agent, which keeps its snapshots and sends them again.
var errReading = status.Error(codes.Unavailable, "the coordinator was restarted, and still reads what it has of the run")

// awaitRebuilt blocks while a run is being rebuilt. Its error is a status.
func (c *Coordinator) awaitRebuilt(ctx context.Context, id string) error {
	r := c.queue.known(id)
	if r == nil || r.isRebuilt() {
		return nil
	}
	select {
	case <-r.rebuilt:
		return nil
	case <-r.ended: // it cannot be rebuilt
		return nil
	case <-c.closing:
		return errClosing
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
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
	opened, err := ledger.Open(c.storage.Ledger(""))
	if err != nil {
		return "", err
	}
	l, err := readLeftover(opened)
	if err != nil {
		return "", errors.Join(err, opened.Close())
	}
	if err := c.resumeLocal(l, opened, with); err != nil {
		return "", errors.Join(fmt.Errorf("run %s cannot be resumed: %w", l.record.GetRunId(), err), opened.Close())
	}
	return l.record.GetRunId(), nil
}

func (c *Coordinator) resumeLocal(l *leftoverRun, opened *ledger.Ledger, with Resumption) error {
	if err := l.discardStage(opened); err != nil {
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
		r := c.loadBegun(l)
		c.mu.Lock()
		c.queue.resume(r, l.checkpoint.GetRoster())
		c.mu.Unlock()
		return c.rebuild(r, l, opened)
	}
	if err := c.requeue(l, opened); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queue.allot(clock.Now())
	return nil
}
