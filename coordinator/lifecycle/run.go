// Package lifecycle is the life of one run, as a pure state machine.
//
//	gathering -> [ (pausing) -> applying -> running -> (stopping) -> closing ] for each stage -> ended
//
// Stages are those of the plan in their order. A template of the plan becomes stages one after another: package series
// decides which, from what the stages before measured.
//
// An agent is lost when it was silent for too long, or when another process has its name; a broken stream alone is no
// loss. What then becomes of the stage is its policy's: it fails, goes on without the agent's part, or hands that part
// to the others once the lost one can start nothing more. From the moment that a share is given up nothing that it
// measures counts: the record says so before anybody is told to take its part over, and the shell must refuse what
// comes after. So no request can be counted twice.
//
// It is fed events, each with its time, and drained of effects. It does no I/O, reads no clock and starts no goroutine,
// so that each scenario can be written down as a script (testdata/) and played in no time. The coordinator is its shell
// and only caller; it must serialise the calls and carry out the effects in their order.
package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config sets the times of a run. Zero values take the defaults.
type Config struct {
	// MinAgents is how many agents the run waits for before it splits the plan. At least 1.
	MinAgents int
	// AgentsTimeout is how long it waits for them. Default 30 s.
	AgentsTimeout time.Duration
	// ApplyTimeout is how long agents may take to get ready for a stage, beside a second for each MiB of its dataset.
	// Default 30 s.
	ApplyTimeout time.Duration
	// Lease is how long an agent goes on without its coordinator, so how long one that was connected has to come back
	// after a new start of the coordinator; ReassignLease is the same for stages whose shares change hands when an
	// agent is lost. Defaults 30 s and 10 s.
	Lease         time.Duration
	ReassignLease time.Duration
	// Silence is how long an agent may say nothing before it is lost: three heartbeats of 1 s and a half. Default 3.5
	// s.
	Silence time.Duration
	// Stall is how long an agent that is heard may deliver no measurements before its share ends: each sends a snapshot
	// a second. Default 60 s.
	Stall time.Duration
	// NearLead is the time from arming to the start if no agent's clock is more uncertain than NearUncertainty: agents
	// on this machine or next to it. Defaults 200 ms and 1 ms.
	NearLead        time.Duration
	NearUncertainty time.Duration
	// FarLead is the same for all others, on top of the largest uncertainty. Default 2 s.
	FarLead time.Duration
	// ObserverPatience is how long observers may get ready when all others are. Default 5 s.
	ObserverPatience time.Duration
	// StopGrace is how long after the end of a drain an agent's totals are waited for. Default 10 s.
	StopGrace time.Duration
	// Records asks agents for one row for each request.
	Records bool
}

// withDefaults fills in what is not set.
func (c Config) withDefaults() Config {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	c.MinAgents = max(1, c.MinAgents)
	set(&c.AgentsTimeout, 30*time.Second)
	set(&c.ApplyTimeout, 30*time.Second)
	set(&c.Lease, 30*time.Second)
	set(&c.ReassignLease, 10*time.Second)
	set(&c.Silence, 3500*time.Millisecond)
	set(&c.Stall, time.Minute)
	set(&c.NearLead, 200*time.Millisecond)
	set(&c.NearUncertainty, time.Millisecond)
	set(&c.FarLead, 2*time.Second)
	set(&c.ObserverPatience, 5*time.Second)
	set(&c.StopGrace, 10*time.Second)
	return c
}

// phase is where the run stands.
type phase uint8

const (
	gathering phase = iota // waits for agents
	pausing                // nothing is sent between two stages
	applying               // agents get ready for a stage
	running                // the stage is armed
	stopping               // the stage ends before its time; totals are waited for
	closing                // the shell works out what was measured
	ended
)

// Run is one run. It is not safe for concurrent use.
type Run struct {
	cfg   Config
	id    string
	plan  []*spatev1.Stage // stages and templates, in order
	begin clock.Instant
	// the wall clock at begin: later wall times are derived, so that a step of the clock changes nothing
	wall time.Time

	phase  phase
	agents map[string]*agent // newest processes of those that are connected or of the run, by name
	roster []*agent          // those that take part, by name; those that joined since the stage began behind them
	// 1 + the agents that were there when it was last said who is waited for; 0: it was not said
	awaited int
	ticked  clock.Instant // last tick
	deaf    clock.Instant // end of the last time that the coordinator was held up; 0: it was not
	stage   *stage        // stage in progress
	joining *share        // newcomer that gets ready to join the stage; it has no part yet
	joinBy  clock.Instant // when it has to be ready

	next        int            // place in the plan of the first entry not begun
	begun       uint32         // stages begun or skipped
	series      *expansion     // sweep or search under way
	begunSeries uint32         // sweeps and searches begun
	pending     *spatev1.Stage // stage that follows the pause
	resume      clock.Instant  // end of the pause

	noted      map[string]bool   // notes on targets that were passed on
	greeted    map[string]bool   // agents of which it was said that they came during the run
	dead       map[string]string // why a target's remaining stages are skipped
	rejected   map[string]string // why a target's last stage was rejected
	stopped    bool              // a person has asked for the end
	fatal      string            // why no stage follows
	failure    string            // the first failure of a stage
	incomplete bool              // something is missing from a stage's result
	effects    []Effect
	unsaved    bool // the checkpoint has changed
}

// New begins a run at an instant whose wall time is given. The stages are those of the plan, in order, templates among
// them. The shell then feeds Connected for each agent that is there.
func New(cfg Config, id string, plan []*spatev1.Stage, at clock.Instant, wall time.Time) *Run {
	return &Run{
		cfg: cfg.withDefaults(), id: id, plan: plan, begin: at, ticked: at, wall: wall,
		agents: map[string]*agent{}, noted: map[string]bool{}, greeted: map[string]bool{}, dead: map[string]string{},
		rejected: map[string]string{},
		unsaved:  true,
	}
}

// Effects hands out what is to be done since the last call.
func (r *Run) Effects() []Effect {
	if r.unsaved && !r.Ended() {
		e := PutCheckpoint{}
		if r.inStage() {
			e.Stage = r.stage.snapshot()
		}
		r.do(e)
	}
	out := r.effects
	r.effects, r.unsaved = nil, false
	return out
}

// Ended says whether the run has ended.
func (r *Run) Ended() bool { return r.phase == ended }

// Busy says whether an agent takes part in a run that goes on.
func (r *Run) Busy(name string) bool {
	a := r.agents[name]
	if r.Ended() || a == nil {
		return false
	}
	return slices.Contains(r.roster, a) || r.joining != nil && r.joining.agent == a
}

// Tick tells the time. The shell calls it several times a second.
func (r *Run) Tick(at clock.Instant) {
	r.listen(at)
	if r.phase == gathering {
		r.gather(at)
		return
	}
	r.loseSilent(at)
	switch r.phase {
	case pausing:
		r.endPause(at)
	case applying:
		r.checkDeadline(at)
		r.armWaiting(at)
	case running, stopping:
		r.checkAnswers(at)
		r.checkAway(at)
		r.checkStalled(at)
		r.checkDeadline(at)
		r.checkRules(at)
		r.checkJoining(at)
		r.progress(at)
	}
}

// Stop asks for the end of the run: what is in flight is drained, or cancelled at once.
func (r *Run) Stop(at clock.Instant, immediately bool) {
	r.stopped, r.unsaved = true, true
	switch r.phase {
	case gathering, pausing:
		r.finish(at)
	case applying, running, stopping:
		r.stopStage(at, immediately)
	}
}

// Warn tells those who follow the run of something that the machine cannot see.
func (r *Run) Warn(at clock.Instant, text string) {
	if !r.Ended() {
		r.notice(at, spatev1.Severity_SEVERITY_WARNING, "%s", text)
	}
}

// Abort ends the run at once, without waiting for anybody: the coordinator goes away.
func (r *Run) Abort(at clock.Instant, reason string) {
	if r.Ended() {
		return
	}
	r.fatal, r.incomplete = reason, true
	if r.stage != nil && r.phase != closing { // a stage that is only to be worked out has ended as it should
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

// unbegun is how many stages of the plan, at most, were never begun. What a search that was cut short would still have
// asked for nobody knows: it is not counted.
func (r *Run) unbegun() uint32 {
	n := mostStages(r.plan[r.next:])
	if r.pending != nil && r.pending.GetProbe() == nil {
		n++
	}
	return n
}

// do hands out an effect. What a checkpoint holds changes with the records of stages, and on its own where unsaved is
// set.
func (r *Run) do(e Effect) {
	switch e.(type) {
	case PutStage, PutSearch:
		r.unsaved = true
	}
	r.effects = append(r.effects, e)
}

// emit stamps an event and hands it out.
func (r *Run) emit(at clock.Instant, e *spatev1.RunEvent) {
	e.Time = timestamppb.New(r.wallTime(at))
	r.do(Emit{e})
}

// notice tells people something.
func (r *Run) notice(at clock.Instant, s spatev1.Severity, format string, args ...any) {
	r.emit(at, &spatev1.RunEvent{Event: &spatev1.RunEvent_Notice{Notice: &spatev1.Notice{
		Severity: s, Text: fmt.Sprintf(format, args...),
	}}})
}

// wallTime labels an instant for people.
func (r *Run) wallTime(at clock.Instant) time.Time { return r.wall.Add(at.Sub(r.begin)) }

// clone copies a message that leaves the machine, which may change its own later.
func clone[M proto.Message](m M) M { return proto.CloneOf(m) }
