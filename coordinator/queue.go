package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// submit accepts a run, which begins at once or when the runs before it have ended. It returns the number of those
// runs. It blocks until all that the answer says is durable, and fails when ctx ends first.
func (c *Coordinator) submit(ctx context.Context, s submission) (r *run, waiting int, err error) {
	if err := c.reservePlace(); err != nil {
		return nil, 0, err
	}
	r, err = c.newRun(s, time.Now())
	waiting, written, err := c.enqueue(r, err)
	if err != nil {
		return nil, 0, status.Errorf(codes.Internal, "the run's ledger cannot be created: %v", err)
	}
	return r, waiting, await(ctx, written)
}

// await waits for a channel to be closed. Its error is a status.
func await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// reservePlace reserves a place in the queue for a run whose ledger is about to be created.
func (c *Coordinator) reservePlace() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosing
	}
	if waiting := len(c.queue) + c.expected; waiting >= c.cfg.MaxWaiting {
		return status.Errorf(codes.ResourceExhausted, "%d runs are waiting, the most allowed: "+
			"submit the run again when some have ended, or stop some", waiting)
	}
	c.expected++
	return nil
}

// enqueue puts the expected run into the queue, unless creating it failed. It returns how many runs come before it.
// written is closed when the run's queued records are durable.
func (c *Coordinator) enqueue(r *run, failure error) (waiting int, written <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.expected--
	if failure != nil {
		return 0, nil, failure
	}
	if c.closed { // the next coordinator resumes it
		return len(c.queue), c.written(r), r.ledger.Close()
	}
	c.remember(r)
	if c.active == nil && len(c.queue) == 0 {
		r.record.SubmitTime = nil // it begins at once
	}
	c.queue = append(c.queue, r)
	c.beginNext()
	if r.machine != nil {
		return 0, c.written(r), nil
	}
	c.log.Info("run waits", "run", r.id, "runs_before", len(c.queue))
	c.tellPlaces()
	return len(c.queue), c.written(r), nil
}

// newRun makes a waiting run and creates its ledger.
func (c *Coordinator) newRun(s submission, wall time.Time) (*run, error) {
	id := runID(s.plan.Name(), wall)
	record := &spatev1.RunRecord{
		RunId: id, PlanYaml: s.plan.Source(), Version: c.cfg.Version, Records: s.request.GetRecords(),
		Submitter: s.submitter.String(), SubmitterAddress: s.submitter.Host(),
		SubmitTime: timestamppb.New(wall),
	}
	if speed, simulation := s.plan.Compression(); simulation {
		record.TimeCompression = speed
	}
	for _, st := range s.stages {
		record.Stages += plans.EstimateOf(st).Stages
	}
	submission := &spatev1.Submission{
		Name: s.plan.Name(), Plan: s.stages, References: slices.Sorted(maps.Keys(s.secrets)),
		MinAgents: s.request.GetMinAgents(), AgentsTimeout: s.request.GetAgentsTimeout(), Local: c.cfg.Local,
	}
	if err := os.MkdirAll(c.storage.Dir(id), 0o755); err != nil {
		return nil, err
	}
	l, err := ledger.Create(c.storage.Ledger(id), ledger.Change{Run: record, Submission: submission})
	if err != nil {
		return nil, err
	}
	r := c.makeRun(record, submission, l)
	c.storage.Reserve(id).Hold(c.log)
	r.secrets, r.client = s.secrets, s.request.GetVersion()
	return r, nil
}

// machineConfig returns the configuration of a run's machine.
func (c *Coordinator) machineConfig(r *run) lifecycle.Config {
	cfg := c.cfg.Run
	cfg.Lease = c.cfg.Lease
	cfg.MinAgents = int(r.submission.GetMinAgents())
	if d := r.submission.GetAgentsTimeout(); d != nil {
		cfg.AgentsTimeout = d.AsDuration()
	}
	cfg.Records = r.record.GetRecords() != ""
	return cfg
}

// beginNext begins the run that has waited longest, if none is in progress. c.mu is held.
func (c *Coordinator) beginNext() {
	if c.closed || c.active != nil || len(c.queue) == 0 {
		return
	}
	r := c.queue[0]
	c.queue = c.queue[1:]
	now, wall := clock.Now(), time.Now()
	c.log.Info("run begins", "run", r.id, "entries", len(r.submission.GetPlan()), "agents", len(c.sessions))
	r.record.BeginTime, r.unsaved = timestamppb.New(wall), true
	c.later(r, func() {
		c.openSink(r)
		c.workers.Go(func() { c.work(r) })
	})
	r.machine = lifecycle.New(c.machineConfig(r), r.id, r.submission.GetPlan(), now, wall)
	c.active = r
	c.feedAt(now, func(r *run, at clock.Instant) {
		c.tellCordons(r, at)
		for _, session := range c.sessions {
			if session.heartbeat.GetLeaving() {
				continue
			}
			r.machine.Connected(at, session.info, session.incarnation, nil, false)
			c.tellVersion(r, "agent "+session.info.GetName(), session.info.GetVersion(), at)
		}
		c.tellVersion(r, "the client", r.client, at)
		r.machine.Tick(at)
	})
	c.tellPlaces()
}

// tellCordons tells the machine of a run which agents take no new runs. c.mu is held.
func (c *Coordinator) tellCordons(r *run, at clock.Instant) {
	for name, cordon := range c.cordons.All() {
		r.machine.Cordon(at, name, cordon)
	}
}

// tellPlaces tells the followers of waiting runs how many runs come before theirs, whenever that changes. c.mu is held.
func (c *Coordinator) tellPlaces() {
	for i, r := range c.queue {
		if place := i + 1; c.active != nil && r.place != place {
			r.place = place
			c.announce(r, placeNotice(place))
		}
	}
}

// placeNotice returns a notice that says how many runs come before a run.
func placeNotice(place int) *spatev1.RunEvent {
	text := fmt.Sprintf("waiting: %d runs come before this one", place)
	if place == 1 {
		text = "waiting for the run in progress to end: this one is next"
	}
	return &spatev1.RunEvent{Time: timestamppb.Now(), Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{
		Severity: spatev1.Severity_SEVERITY_INFO, Text: text,
	}}}
}

// announce queues an event of a waiting run. Followers get it after it is written. c.mu is held.
func (c *Coordinator) announce(r *run, e *spatev1.RunEvent) {
	c.later(r, func() {
		if n, ok := r.events.Number(e); ok {
			c.tryWrite(r, ledger.Change{Events: []*spatev1.FollowRunResponse{n}})
			c.deliver(r, n)
		}
	})
}

// tryWrite writes a change that may be lost: a failure is only logged.
func (c *Coordinator) tryWrite(r *run, change ledger.Change) {
	if err := c.write(r, change); err != nil {
		c.log.Error("the ledger cannot be written", "run", r.id, "error", err)
	}
}

// endWaiting ends a run that has not begun and is no longer in the queue. c.mu is held.
func (c *Coordinator) endWaiting(r *run, outcome spatev1.Outcome, reason string) {
	r.record.EndTime, r.record.Outcome, r.record.Reason = timestamppb.Now(), outcome, reason
	record := proto.CloneOf(r.record)
	c.later(r, func() {
		n, _ := r.events.Number(&spatev1.RunEvent{Time: record.GetEndTime(), Event: &spatev1.RunEvent_RunEnded{
			RunEnded: &spatev1.RunEnded{Outcome: outcome, Reason: reason},
		}})
		end := []*spatev1.FollowRunResponse{n}
		c.tryWrite(r, ledger.Change{Run: record, Events: end})
		c.finish(r, end)
	})
}

// stopWaiting ends a run if it is waiting, and reports whether it was. stopper is who wants it. c.mu is held.
func (c *Coordinator) stopWaiting(r *run, stopper string) bool {
	i := slices.Index(c.queue, r)
	if i < 0 {
		return false
	}
	c.queue = slices.Delete(c.queue, i, i+1)
	r.record.Stopper = stopper
	c.endWaiting(r, spatev1.Outcome_OUTCOME_STOPPED, "stopped on request before it began")
	c.tellPlaces()
	return true
}

// openSink opens the run's sink. A sink that cannot be opened is logged and does not affect results.
func (c *Coordinator) openSink(r *run) {
	if c.cfg.OpenSink == nil {
		return
	}
	s, err := c.cfg.OpenSink(c.storage.Dir(r.id))
	if err != nil {
		c.log.Error("the sink cannot be opened: no live results are written", "run", r.id, "error", err)
		return
	}
	r.sink, r.stages.KeepToDates = s, s != sink.Discard
}

// maxRecent is how many ended runs are kept in memory for followers. Older runs are read from their ledgers.
const maxRecent = 8

// remember keeps a run in memory for its followers, and forgets the oldest ended runs beyond maxRecent. c.mu is held.
func (c *Coordinator) remember(r *run) {
	c.runs[r.id] = r
	c.recent = append(c.recent, r.id)
	over := len(c.recent) - maxRecent - len(c.queue)
	c.recent = slices.DeleteFunc(c.recent, func(id string) bool {
		old := c.runs[id]
		if over <= 0 || old == c.active || slices.Contains(c.queue, old) || old == r {
			return false
		}
		over--
		delete(c.runs, id)
		return true
	})
}

// runID returns a run's id: the plan's name, the time of submission, and a random suffix against clashes.
func runID(plan string, wall time.Time) string {
	var b [3]byte
	rand.Read(b[:]) // never fails, by its contract
	return fmt.Sprintf("%s-%s-%s", plan, wall.UTC().Format("20060102T150405Z"), hex.EncodeToString(b[:]))
}
