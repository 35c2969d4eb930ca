package coordinator

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/estimate"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// submit accepts a run, which begins at once or when its agents are free. It returns its place in the queue, 0 if it
// begins at once. It blocks until all that the answer says is durable, and fails when ctx ends first.
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

// enqueue puts the expected run into the queue, unless creating it failed. It returns its place there, from 1, or 0 if
// it begins at once.
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
	c.wait(r)
	c.allot(clock.Now())
	if r.machine != nil {
		return 0, c.written(r), nil
	}
	place := slices.Index(c.queue, r) + 1
	c.log.Info("run waits", "run", r.id, "place", place)
	return place, c.written(r), nil
}

// wait puts a run into the queue, behind those of its priority. c.mu is held.
func (c *Coordinator) wait(r *run) {
	i := slices.IndexFunc(c.queue, func(other *run) bool {
		return other.record.GetPriority() < r.record.GetPriority()
	})
	if i < 0 {
		i = len(c.queue)
	}
	c.queue = slices.Insert(c.queue, i, r)
}

// newRun makes a waiting run and creates its ledger.
func (c *Coordinator) newRun(s submission, wall time.Time) (*run, error) {
	id := runID(s.plan.Name(), wall)
	record := &spatev1.RunRecord{
		RunId: id, PlanYaml: s.plan.Source(), Version: c.cfg.Version, Records: s.request.GetRecords(),
		Submitter: s.submitter.String(), SubmitterAddress: s.submitter.Host(),
		SubmitTime: timestamppb.New(wall), Priority: s.request.GetPriority(),
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
		_ = os.Remove(c.storage.Dir(id)) // empty: nothing else would remove the directory
		return nil, err
	}
	r := makeRun(record, submission)
	c.setLedger(r, l)
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
	cfg.Others = func() []string { return c.others(r) }
	if c.cfg.RequireExpected {
		cfg.Missing = func() []string { return c.cfg.Expected.MissingWords(c.connectedInfos()) }
	}
	return cfg
}

// connectedInfos returns the agents that have a session. c.mu is held, as it is whenever a machine runs.
func (c *Coordinator) connectedInfos() (out []*spatev1.AgentInfo) {
	for _, s := range c.sessions {
		out = append(out, s.info)
	}
	return out
}

// beginNext begins the waiting runs that can begin, and tells the followers of the others what they wait for. c.mu is
// held.
func (c *Coordinator) beginNext(at clock.Instant) {
	if len(c.queue) == 0 {
		return
	}
	waiting := c.queue
	decisions := allotment.Decide(c.allotmentAgents(), allotmentRuns(c.active), allotmentRuns(waiting), c.limits())
	c.queue = nil
	for i, r := range waiting {
		if r.wait = decisions[i]; r.wait.Wait != allotment.None {
			c.queue = append(c.queue, r)
		}
	}
	for _, r := range waiting {
		if r.wait.Wait == allotment.None {
			c.begin(r, r.wait.Agents, at)
		}
	}
	c.tellWaits()
}

// begin begins a run with agents, by their names. c.mu is held.
func (c *Coordinator) begin(r *run, agents []string, now clock.Instant) {
	wall := clock.WallTime(now)
	c.log.Info("run begins", "run", r.id, "entries", len(r.submission.GetPlan()), "agents", len(agents))
	r.record.BeginTime, r.unsaved = timestamppb.New(wall), true
	c.later(r, func() {
		c.openSink(r)
		c.workers.Go(func() { c.work(r) })
	})
	r.machine = lifecycle.New(c.machineConfig(r), r.id, r.submission.GetPlan(), now, wall)
	c.active = append(c.active, r)
	for _, name := range agents {
		c.take(r, c.sessions[name], now)
	}
	c.feedAt(r, now, func(r *run, at clock.Instant) {
		c.tellVersion(r, "the client", r.client, at)
		r.machine.Tick(at)
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
	c.allot(clock.Now())
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
	over := len(c.recent) - maxRecent - len(c.queue) - len(c.active)
	c.recent = slices.DeleteFunc(c.recent, func(id string) bool {
		old := c.runs[id]
		if over <= 0 || c.inProgress(old) || slices.Contains(c.queue, old) || old == r {
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

// tellWaits tells the followers of waiting runs what these wait for, whenever that changes, and about how long. c.mu is
// held.
func (c *Coordinator) tellWaits() {
	var estimate func() []*time.Duration
	for i, r := range c.queue {
		text := "waiting: " + c.why(r) + "; " + placeText(i+1)
		if r.told == text {
			continue
		}
		r.told = text
		if estimate == nil {
			estimate = sync.OnceValue(c.estimateWaits())
		}
		c.later(r, func() { c.tellWait(r, text, estimate()[i]) })
	}
}

// tellWait tells the followers of a run what it waits for. It is a task of the run's write queue.
func (c *Coordinator) tellWait(r *run, text string, wait *time.Duration) {
	if wait != nil {
		text += ", in about " + words.Span(wait.Seconds())
	}
	n, ok := r.events.Number(&spatev1.RunEvent{Time: timestamppb.Now(), Event: &spatev1.RunEvent_Notice{
		Notice: &spatev1.Notice{Severity: spatev1.Severity_SEVERITY_INFO, Text: text},
	}})
	if ok {
		c.tryWrite(r, ledger.Change{Events: []*spatev1.FollowRunResponse{n}})
		c.deliver(r, n)
	}
}

// placeText returns how many runs come before a run in the queue, whose place there is counted from 1.
func placeText(place int) string {
	switch place {
	case 1:
		return "this run is next"
	case 2:
		return "1 run in the queue comes before this one"
	}
	return fmt.Sprintf("%d runs in the queue come before this one", place-1)
}

// estimateWaits returns a function that estimates how long the waiting runs still wait, in their order. The function
// needs no lock, because it takes milliseconds with many agents and runs. c.mu is held.
func (c *Coordinator) estimateWaits() func() []*time.Duration {
	agents, running, waiting := c.allotmentAgents(), allotmentRuns(c.active), allotmentRuns(c.queue)
	now, limits, queue := clock.Now(), c.limits(), slices.Clone(c.queue)
	for i, r := range c.active {
		if r.isRebuilt() {
			c.confined(r, func() { running[i].Left = r.machine.Left(now) })
		}
	}
	return func() []*time.Duration {
		for i, r := range queue {
			waiting[i].Left = estimate.Time(estimate.Plan(r.submission.GetPlan())).Length()
		}
		return allotment.Waits(agents, running, waiting, limits)
	}
}

// limits returns the limits of all runs together. c.mu is held; what is returned needs no lock.
func (c *Coordinator) limits() allotment.Limits {
	policy, plans := c.policy, map[string][]*spatev1.Stage{}
	for _, r := range slices.Concat(c.active, c.queue) {
		plans[r.id] = r.submission.GetPlan()
	}
	return allotment.Limits{Runs: c.cfg.MaxRuns, Exceeded: func(run string, beside []string) string {
		var others [][]*spatev1.Stage
		for _, other := range beside {
			others = append(others, plans[other])
		}
		if err := policy.CheckLoad(plans[run], others...); err != nil {
			return err.Error()
		}
		return ""
	}}
}

// why returns what a waiting run waits for, in words. c.mu is held.
func (c *Coordinator) why(r *run) string {
	switch r.wait.Wait {
	case allotment.Servers:
		return "the same server is loaded by " + c.namesOf(r.wait.For)
	case allotment.Load:
		return strings.ReplaceAll(r.wait.Words, "\n", "; ")
	case allotment.Agents:
		return "agents that it needs belong to " + c.namesOf(r.wait.For)
	case allotment.Missing:
		return "fewer agents than it needs are connected"
	}
	return fmt.Sprintf("as many runs as allowed are in progress (--max-runs %d)", c.cfg.MaxRuns)
}

// mostNamed bounds the runs that are named because another run waits for them.
const mostNamed = 3

// namesOf names runs, each with who submitted it. c.mu is held.
func (c *Coordinator) namesOf(ids []string) string {
	var names []string
	for _, id := range ids[:min(len(ids), mostNamed)] {
		name := "run " + id
		if by := c.runs[id].record.GetSubmitter(); by != "" {
			name += " of " + by
		}
		names = append(names, name)
	}
	if more := len(ids) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
