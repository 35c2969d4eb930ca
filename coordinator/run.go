package coordinator

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/allotment"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/live"
	"github.com/spate-load/spate/coordinator/storage"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// keeper is who keeps runs.
type keeper interface {
	// released is called when a run that was in progress is over: others may take its agents. The lock is held.
	released(*run)
	// tick is called several times a second by each run in progress.
	tick()
	// recorded is called when all that a run wrote is on disk, and nothing of it is in progress any more.
	recorded()
}

// run is a run with its ledger, sink and followers. It waits, then is in progress, then has ended. The lock guards all
// that changes, except events, stages, and the sink, which is opened before anything uses it.
type run struct {
	*ground
	keeper     keeper
	id         string
	record     *spatev1.RunRecord
	submission *spatev1.Submission
	machine    *lifecycle.Run   // nil: the run waits, ended before it began, or is being rebuilt
	rebuilt    chan struct{}    // closed when an earlier coordinator's run continues; nil: of others
	ledger     *ledger.Ledger   // nil: the run is being rebuilt
	disk       *storage.Watched // the ledger, for writes that others wait for
	writes     storage.Queue
	epoch      int               // raised when a write fails: batches of earlier epochs are dropped
	failed     string            // why a write failed; empty: none did
	secrets    map[string]string // values by reference; kept in memory only
	events     *live.EventLog
	sink       sink.Sink
	stages     *live.Stages
	claims     storage.Claims
	unsaved    bool               // record has changed
	inProgress bool               // it has begun, or is being rebuilt, and has not ended
	freeing    bool               // agents that it does not need are about to be freed
	client     string             // version of the client that submitted it; empty: not known
	skewed     map[string]bool    // programs whose other version was told
	wait       allotment.Decision // while it waits: what for
	told       string             // what its followers were last told about that

	progress []lifecycle.Progress      // to be reported by the worker
	toClose  chan lifecycle.CloseStage // capacity 1: the machine waits for one stage at a time
	ended    chan struct{}             // closed when the run has ended
	once     sync.Once                 // closes ended
}

// newRun makes a run from what its ledger holds. setLedger must be called next.
func newRun(g *ground, k keeper, record *spatev1.RunRecord, submission *spatev1.Submission) *run {
	return &run{
		ground: g, keeper: k, id: record.GetRunId(), record: record, submission: submission, sink: sink.Discard,
		events: live.NewEventLog(nil, 0), skewed: map[string]bool{},
		toClose: make(chan lifecycle.CloseStage, 1), ended: make(chan struct{}),
		stages: &live.Stages{Whole: make(chan struct{}, 1)},
	}
}

// setLedger gives a run its open ledger.
func (r *run) setLedger(l *ledger.Ledger) {
	r.ledger, r.disk = l, storage.Watch(r.diskOf(l), clock.Now)
	r.storage.Reserve(r.id).Hold(r.log)
}

// over marks the run as ended, or as left to another coordinator.
func (r *run) over() { r.once.Do(func() { close(r.ended) }) }

// plan returns the name of the run's plan.
func (r *run) plan() string { return r.submission.GetName() }

// points returns the run's identity for its points.
func (r *run) points() points.Run { return points.Run{ID: r.id, Plan: r.plan()} }

// first returns the first stage of the plan, from which the agents of the run are known. No plan is empty.
func (r *run) first() *spatev1.Stage { return r.submission.GetPlan()[0] }

// begin puts the run into progress. It has no agents yet. The lock is held.
func (r *run) begin(now clock.Instant) {
	wall := clock.WallTime(now)
	r.record.BeginTime, r.unsaved, r.inProgress = timestamppb.New(wall), true, true
	r.later(func() {
		r.openSink()
		r.workers.Go(r.work)
	})
	r.machine = lifecycle.New(r.machineConfig(), r.id, r.submission.GetPlan(), now, wall)
}

// machineConfig returns the configuration of a run's machine.
func (r *run) machineConfig() lifecycle.Config {
	cfg := r.cfg.Run
	cfg.MinAgents = int(r.submission.GetMinAgents())
	if d := r.submission.GetAgentsTimeout(); d != nil {
		cfg.AgentsTimeout = d.AsDuration()
	}
	cfg.Records = r.record.GetRecords() != ""
	cfg.Others = func() []string { return r.fleet.Others(r.id, r.first()) }
	return cfg
}

// feed gives an event that happens now to the machine of a run. The lock is held.
func (r *run) feed(event func(m *lifecycle.Run, at clock.Instant)) { r.feedAt(clock.Now(), event) }

// feedAt gives an event to the machine of a run, if the run is in progress, and queues the effects. A run that is being
// rebuilt has no machine: what it misses is made up for by resume. The lock is held.
func (r *run) feedAt(at clock.Instant, event func(m *lifecycle.Run, at clock.Instant)) {
	if !r.inProgress || !r.isRebuilt() {
		return
	}
	r.confined(func() {
		event(r.machine, at)
		r.carryOut()
	})
}

// confined calls do, which uses a run's machine, and ends that run if do panics. The lock is held.
func (r *run) confined(do func()) {
	defer func() {
		if fault := recover(); fault != nil {
			r.faulted(fault)
		}
	}()
	do()
}

// guarded calls do, and ends the run if do panics. The lock is not held.
func (r *run) guarded(do func()) {
	defer func() {
		if fault := recover(); fault != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.faulted(fault)
		}
	}()
	do()
}

// faulted ends a run because of a panic. It is called on the goroutine that recovered from the panic. The lock is held.
func (r *run) faulted(fault any) {
	err := r.noteFault(fault, "run", r.id)
	if !r.inProgress {
		return
	}
	r.abortFaulted(err.Error())
	r.later(r.forceEnd)
}

// abortFaulted aborts a run whose state may be inconsistent: a second panic is recovered and logged. The lock is held.
func (r *run) abortFaulted(reason string) {
	defer func() {
		if again := recover(); again != nil {
			r.log.Error("the run cannot be ended in order", "run", r.id, "fault", again)
		}
	}()
	r.machine.Abort(clock.Now(), reason)
	r.carryOut()
}

// forceEnd releases a run whose end could not even be written, so that the next run can begin. It is a task of the
// run's write queue and comes after the run's end, if there is one.
func (r *run) forceEnd() {
	r.mu.Lock()
	going := r.inProgress
	r.mu.Unlock()
	if !going {
		return
	}
	if err := r.ledger.Close(); err != nil {
		r.log.Error("the ledger of the run cannot be closed", "run", r.id, "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release()
}

// abort ends a run at once, if it is in progress. The lock is held.
func (r *run) abort(reason string) {
	r.feed(func(m *lifecycle.Run, at clock.Instant) { m.Abort(at, reason) })
}

// later queues a task of a run that waits or is in progress. A run's tasks run one after another, without the lock. It
// does not block. The lock is held, or the caller is one of the workers.
func (r *run) later(task func()) {
	if r.writes.Push(task) {
		r.workers.Go(func() {
			for task := r.writes.Pop(); task != nil; task = r.writes.Pop() {
				r.guarded(task)
			}
		})
	}
}

// written returns a channel that is closed when everything queued for a run so far is durable or has failed.
// The lock is held.
func (r *run) written() <-chan struct{} {
	done := make(chan struct{})
	if r.closed {
		close(done) // no new tasks while the coordinator closes
		return done
	}
	r.later(func() { close(done) })
	return done
}

// isRebuilt reports whether a run is rebuilt, or need not be.
func (r *run) isRebuilt() bool {
	select {
	case <-r.rebuilt:
		return true
	default:
		return r.rebuilt == nil
	}
}

// needs returns whether an agent takes part in the run, and whether the run no longer needs an agent that leaves. Of a
// nil run no agent takes part. The lock is held.
func (r *run) needs(agent string) (busy, released bool) {
	if r == nil {
		return false, true
	}
	if !r.isRebuilt() {
		return true, false
	}
	return r.machine.Busy(agent), r.machine.Released(agent)
}

// connected tells the machine that an agent of the run is connected, and what the agent works on. The lock is held.
func (r *run) connected(s *fleet.Session) {
	r.feed(func(m *lifecycle.Run, at clock.Instant) {
		m.Connected(at, s.Info, s.Incarnation, s.Hello.GetResume(), s.Hello.GetArmed())
		r.tellVersion("agent "+s.Name(), s.Info.GetVersion(), at)
	})
}

// tellVersion tells a run's followers, once per program, that a program has another version. Both versions speak the
// same protocol and measure by the same definitions. The lock is held.
func (r *run) tellVersion(who, version string, at clock.Instant) {
	if version == "" || r.cfg.Version == "" || version == r.cfg.Version || r.skewed[who] || len(r.skewed) == maxSkewed {
		return
	}
	r.skewed[who] = true
	r.log.Warn("program of another version", "who", who, "version", version, "coordinator_version", r.cfg.Version)
	r.machine.Warn(at, fmt.Sprintf("%s has version %s, the coordinator has %s: they work together, but may differ "+
		"in bug fixes",
		who, version, r.cfg.Version))
}

// maxSkewed bounds the programs of another version that a run's followers are told about.
const maxSkewed = 16

// stop stops the run if it is in progress. stopper is who wants it. The lock is held.
func (r *run) stop(immediately bool, stopper string) {
	if !r.inProgress {
		return
	}
	r.log.Info("run is asked to stop", "run", r.id, "immediately", immediately)
	r.record.Stopper, r.unsaved = cmp.Or(r.record.GetStopper(), stopper), true
	r.feed(func(m *lifecycle.Run, at clock.Instant) { m.Stop(at, immediately) })
}

// wants reports whether the run in progress would use one more agent. The lock is held.
func (r *run) wants(s *fleet.Session, at clock.Instant) (wants bool) {
	r.confined(func() { wants = r.isRebuilt() && r.machine.Wants(at, s.Info) })
	return wants
}

// unneeded returns the agents that belong to the run and that it does not need, by name. The lock is held.
func (r *run) unneeded(at clock.Instant) (names []string) {
	if !r.inProgress || !r.isRebuilt() {
		return nil
	}
	r.confined(func() {
		if !r.machine.Ended() {
			needs := r.machine.Needs(at)
			names = slices.DeleteFunc(r.fleet.TakenBy(r.id), func(name string) bool { return needs[name] })
		}
	})
	return names
}

// allotable describes the run for package allotment.
func (r *run) allotable() allotment.Run {
	out := allotment.Run{ID: r.id, First: r.first(), Least: int(r.submission.GetMinAgents())}
	out.Least = max(out.Least, int(out.First.GetAgents().GetCount()))
	for _, st := range r.submission.GetPlan() {
		for _, address := range st.GetTarget().GetEndpoints() {
			if server := naming.Server(address); server != "" && !slices.Contains(out.Servers, server) {
				out.Servers = append(out.Servers, server)
			}
		}
	}
	return out
}

// summary summarises the run. The lock is held.
func (r *run) summary() *spatev1.RunSummary {
	out := storage.SummaryOf(proto.CloneOf(r.record), r.plan())
	out.State = spatev1.RunState_RUN_STATE_WAITING
	if r.machine != nil || r.rebuilt != nil {
		out.State = spatev1.RunState_RUN_STATE_RUNNING
	}
	for _, rec := range r.stages.Records() {
		if rec.GetEnded() {
			out.StagesEnded++
		}
	}
	return out
}

// tellWait tells the followers of the waiting run what it waits for. It is a task of the run's write queue.
func (r *run) tellWait(text string) {
	n, ok := r.events.Number(&spatev1.RunEvent{Time: timestamppb.Now(), Event: &spatev1.RunEvent_Notice{
		Notice: &spatev1.Notice{Severity: spatev1.Severity_SEVERITY_INFO, Text: text},
	}})
	if ok {
		r.tryWrite(ledger.Change{Events: []*spatev1.FollowRunResponse{n}})
		r.deliver(n)
	}
}

// endWaiting ends the run, which has not begun and is no longer in the queue. The lock is held.
func (r *run) endWaiting(outcome spatev1.Outcome, reason string) {
	r.record.EndTime, r.record.Outcome, r.record.Reason = timestamppb.Now(), outcome, reason
	record := proto.CloneOf(r.record)
	r.later(func() {
		n, _ := r.events.Number(&spatev1.RunEvent{Time: record.GetEndTime(), Event: &spatev1.RunEvent_RunEnded{
			RunEnded: &spatev1.RunEnded{Outcome: outcome, Reason: reason},
		}})
		end := []*spatev1.FollowRunResponse{n}
		r.tryWrite(ledger.Change{Run: record, Events: end})
		r.finish(end)
	})
}
