// Package lifecycle is the life of one run as a pure state machine.
//
//	gathering -> [ (serving) -> (pausing) -> applying -> running -> (stopping) -> closing ] for each stage -> ended
//
// Stages follow the order of the plan. A template of the plan becomes stages one after another: package series decides
// which, from what the previous stages measured.
//
// An agent is lost when it has been silent for too long, or when another process has its name. A broken stream alone is
// not a loss. The stage's policy then decides: the stage fails, continues without the agent's part, or hands that part
// to the other agents once the lost agent can start nothing more. From the moment an assignment is dropped, nothing
// that it measures counts. The record says so before any agent is told to take the part over, and the shell must refuse
// later snapshots. So no request is counted twice.
//
// The files follow the states: gathering.go, next.go between two stages, applying.go, running.go, stopping.go. What an
// agent says comes to agents.go. loss.go and handover.go decide what becomes of the part of an agent that is gone,
// join.go and leave.go what an agent that comes or goes gets or gives.
//
// The machine is fed events, each with its time, and returns effects. It does no I/O, reads no clock and starts no
// goroutine, so that each scenario can be written as a script (testdata/) and played instantly. The coordinator is its
// shell and only caller. The coordinator must serialise the calls and carry out the effects in order.
package lifecycle

import (
	"cmp"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config sets the times of a run. Zero values take the defaults.
type Config struct {
	// MinAgents is how many agents the run waits for before its first stage. At least 1.
	MinAgents int
	// AgentsTimeout is how long the run waits for these agents. Default 30 s.
	AgentsTimeout time.Duration
	// Lease is how long an agent continues without its coordinator. After a restart of the coordinator, an agent that
	// was connected has as long to come back. ReassignLease is the lease in stages whose policy is reassign. Defaults
	// 30 s and 10 s.
	Lease         time.Duration
	ReassignLease time.Duration
	// Silence is how long an agent may be silent before it is lost. Default 3.5 s: three and a half heartbeats of 1 s.
	Silence time.Duration
	// Stall is how long an agent that sends heartbeats may deliver no snapshots before its assignment ends. Agents send
	// a snapshot a second. Default 60 s.
	Stall time.Duration
	// NearLead is the time from arming to the start if no agent's clock is more uncertain than nearUncertainty, as with
	// agents on this machine or close to it. Default 200 ms.
	NearLead time.Duration
	// Others returns in words which connected agents do not belong to the run, and why. Nil: all do.
	Others func() []string
	// Records makes agents report a row for each request.
	Records bool
}

// Times that are the same for all runs.
const (
	// getReady is how long agents may take to get ready for a stage, plus a second for each MiB of its dataset. It is
	// more than the minute that it may take to find out about a slow target.
	getReady = 90 * time.Second
	// askCanaries is how much longer they may take to ask the target canaries.
	askCanaries = 30 * time.Second
	// nearUncertainty is the most that an agent's clock may be uncertain for Config.NearLead.
	nearUncertainty = time.Millisecond
	// farLead is the time from arming to the start in all other cases, added to the largest uncertainty.
	farLead = 2 * time.Second
	// stopGrace is how long the run waits for an agent's totals after the end of a drain.
	stopGrace = 10 * time.Second
)

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	c.MinAgents = max(1, c.MinAgents)
	set(&c.AgentsTimeout, 30*time.Second)
	set(&c.Lease, 30*time.Second)
	set(&c.ReassignLease, 10*time.Second)
	set(&c.Silence, 3500*time.Millisecond)
	set(&c.Stall, time.Minute)
	set(&c.NearLead, 200*time.Millisecond)
	return c
}

// phase is the phase of the run.
type phase uint8

const (
	gathering phase = iota // waits for agents
	serving                // waits for the server of the next stage; no load
	pausing                // waits between two stages; no load
	applying               // agents get ready for a stage
	running                // the stage is armed
	stopping               // the stage ends early; waits for totals
	closing                // the shell computes the stage's result
	ended
)

// Run is one run. It is not safe for concurrent use.
type Run struct {
	cfg   Config
	id    string
	plan  []*spatev1.Stage // stages and templates, in order
	begin clock.Instant
	// wall time at begin, from which later wall times are derived, so that steps of the wall clock do not matter
	wall time.Time

	phase    phase
	agents   map[string]*agent // newest process of each agent that is connected or of the run, by name
	roster   []*agent          // agents that take part, by name; those that joined during the stage come last
	awaited  string            // last notice of waiting; empty: none yet
	ticked   clock.Instant     // last tick
	heldUpAt clock.Instant     // when the coordinator last noticed that it had been held up; 0: never
	stage    *stage            // stage in progress
	joining  *assignment       // newcomer that is getting ready to join the stage; has no part yet
	joinBy   clock.Instant     // deadline for joining

	next        int            // index in the plan of the first entry not begun
	begun       uint32         // stages begun or skipped
	series      *activeSeries  // sweep, search or frontier in progress
	begunSeries uint32         // sweeps, searches and frontiers begun
	pending     *spatev1.Stage // stage that follows the pause
	resume      clock.Instant  // end of the pause, or of the wait for a server

	finder     string                    // agent that asks targets what they do, for all; stays while it is there
	noted      map[string]bool           // notes on targets that followers were told
	cordons    map[string]spatev1.Cordon // of agents, by name; those that are not in it take runs
	dead       map[string]string         // why a target's remaining stages are skipped
	rejected   map[string]string         // why a target's last stage was rejected
	stopped    bool                      // a person asked to stop the run
	fatal      string                    // why the run ends without further stages
	failure    string                    // the first failure of a stage
	incomplete bool                      // something is missing from a stage's result
	effects    []Effect
	unsaved    bool // the checkpoint has changed
}

// New begins a run at an instant whose wall time is given. plan has the stages and templates in order. The shell then
// calls Connected for each connected agent.
func New(cfg Config, id string, plan []*spatev1.Stage, at clock.Instant, wall time.Time) *Run {
	return &Run{
		cfg: cfg.withDefaults(), id: id, plan: plan, begin: at, ticked: at, wall: wall,
		agents: map[string]*agent{}, noted: map[string]bool{}, dead: map[string]string{},
		rejected: map[string]string{}, cordons: map[string]spatev1.Cordon{},
		unsaved: true,
	}
}

// Tick tells the machine the time. The shell calls it several times a second.
func (r *Run) Tick(at clock.Instant) {
	r.noteTick(at)
	if r.phase == gathering {
		r.gather(at)
		return
	}
	r.loseSilent(at)
	switch r.phase {
	case serving:
		if at >= r.resume {
			r.Abort(at, "the command that submitted the run, which starts its servers, gave no word of that of "+
				r.pending.GetTarget().GetName())
		}
	case pausing:
		if at >= r.resume {
			r.beginPending(at)
		}
	case applying:
		r.checkDeadline(at)
		if r.phase == applying {
			r.armIfReady(at)
		}
	case running, stopping:
		r.checkAnswers(at)
		r.checkLost(at)
		r.checkStalled(at)
		r.checkDeadline(at)
		r.checkRules(at)
		r.checkJoining(at)
		r.checkLeaving(at)
		r.progress(at)
	}
}

// noteTick notes the time of a tick. If the coordinator was held up, agents' messages may be waiting to be read, so
// their silence counts from now.
func (r *Run) noteTick(at clock.Instant) {
	if r.ticked != 0 && at.Sub(r.ticked) > heldUp {
		r.heldUpAt = at
	}
	r.ticked = at
}

// heldUp is how long the machine may go without a tick before it blames itself, not the agents, for silence.
const heldUp = time.Second

// Stop stops the run. Requests in flight are drained or, if immediately is set, cancelled.
func (r *Run) Stop(at clock.Instant, immediately bool) {
	r.stopped, r.unsaved = true, true
	switch r.phase {
	case gathering, serving, pausing:
		r.finish(at)
	case applying, running, stopping:
		r.stopStage(at, immediately)
	}
}

// Warn tells the run's followers of something that the machine cannot see.
func (r *Run) Warn(at clock.Instant, text string) {
	if !r.Ended() {
		r.notice(at, spatev1.Severity_SEVERITY_WARNING, "%s", text)
	}
}

// Abort ends the run at once, without waiting for agents, because the coordinator closes or cannot continue.
func (r *Run) Abort(at clock.Instant, reason string) {
	if r.Ended() {
		return
	}
	r.fatal, r.incomplete = reason, true
	if r.stage != nil && r.phase != closing { // in the closing phase the stage itself has ended properly
		r.stage.fail(reason)
		r.sendStop(true)
		r.do(PutStage{r.stage.snapshot()})
	}
	r.finish(at)
}

// finish ends the run.
func (r *Run) finish(at clock.Instant) {
	r.endSeries(at, cmp.Or(r.fatal, "stopped on request"))
	r.phase = ended
	f := Finish{
		Time: r.wallTime(at), Outcome: spatev1.Outcome_OUTCOME_DONE, Complete: !r.incomplete,
		Stages: r.begun + r.unbegun(),
	}
	switch {
	case r.fatal != "":
		f.Outcome, f.Reason = spatev1.Outcome_OUTCOME_FAILED, r.fatal
	case r.failure != "":
		f.Outcome, f.Reason = spatev1.Outcome_OUTCOME_FAILED, r.failure
	case r.stopped:
		f.Outcome, f.Reason = spatev1.Outcome_OUTCOME_STOPPED, "stopped on request"
	}
	f.Complete = f.Complete && f.Outcome == spatev1.Outcome_OUTCOME_DONE
	r.do(f)
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_RunEnded{RunEnded: &spatev1.RunEnded{
		Outcome: f.Outcome, Complete: f.Complete, Reason: f.Reason,
	}}})
}

// unbegun returns the largest number of stages that the rest of the plan could have had. Further probes of a search
// that was cut short are not known and not counted.
func (r *Run) unbegun() uint32 {
	n := mostStages(r.plan[r.next:])
	if r.pending != nil && r.pending.GetProbe() == nil {
		n++
	}
	return n
}

// Ended reports whether the run has ended.
func (r *Run) Ended() bool { return r.phase == ended }

// inStage reports whether a stage is in progress.
func (p phase) inStage() bool { return p >= applying && p <= closing }

// emit sets an event's time and queues the event.
func (r *Run) emit(at clock.Instant, e *spatev1.RunEvent) {
	e.Time = timestamppb.New(r.wallTime(at))
	r.do(Emit{e})
}

// notice queues a notice for followers.
func (r *Run) notice(at clock.Instant, s spatev1.Severity, format string, args ...any) {
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{
		Severity: s, Text: fmt.Sprintf(format, args...),
	}}})
}

// wallTime returns the wall time of an instant.
func (r *Run) wallTime(at clock.Instant) time.Time { return r.wall.Add(at.Sub(r.begin)) }

// clone copies a message that leaves the machine, since the machine may change its own later.
func clone[M proto.Message](m M) M { return proto.CloneOf(m) }
