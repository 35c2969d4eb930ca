package agent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// applied returns the agent's next message, which must be that a revision was applied.
func (c *coordinator) applied(ref *spatev1.AssignmentRef) {
	c.t.Helper()
	if m := c.next(); !proto.Equal(m.GetApplied().GetRef(), ref) {
		c.t.Fatalf("got %v instead of Applied %v", m, ref)
	}
}

// A stripe is changed before its stage starts, and a late, older revision changes nothing.
func TestRevisionBeforeTheStart(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 4, Requests: 40}, e), 1, 3, 1)
	c.assign(a)
	c.applied(a.GetRef())
	c.revise(enginetest.AtRevision(a.GetRef(), 3), &spatev1.Stripe{Weights: []uint32{1}})
	c.applied(enginetest.AtRevision(a.GetRef(), 3))
	c.revise(enginetest.AtRevision(a.GetRef(), 2), a.GetStripe()) // late: it changes nothing
	c.applied(enginetest.AtRevision(a.GetRef(), 2))
	c.arm(a.GetRef())
	if totals := c.totals(0); totals.GetCounters().GetCompleted() != 40 {
		t.Errorf("totals %v", totals)
	}
	for _, s := range c.once() {
		if s.GetRevision() != 3 {
			t.Errorf("measured under revision %d", s.GetRevision())
		}
	}
	c.revise(enginetest.AtRevision(a.GetRef(), 4), &spatev1.Stripe{Weights: []uint32{1}})
	if reason := c.next().GetRejected().GetReason(); reason != "this agent's load of stage 1 of run run has ended" {
		t.Errorf("reason %q", reason)
	}
}

// Each repeated message is answered again and done once.
func TestRepeatedMessages(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Duration: durationpb.New(time.Hour),
		WarmupUntilSteady: durationpb.New(time.Minute)}, e), 0)
	measure := func() {
		c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Measure{Measure: &spatev1.Measure{
			Ref: enginetest.AtRevision(a.GetRef(), 0), FromNs: int64(time.Hour),
		}}})
	}
	for range 2 {
		c.assign(a)
		c.applied(a.GetRef())
	}
	for range 2 {
		c.arm(a.GetRef())
	}
	for range 2 {
		measure()
		c.next() // when it measures
	}
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 10 })
	c.assign(a)
	c.applied(a.GetRef())
	for range 2 {
		c.stop(enginetest.AtRevision(a.GetRef(), 0))
	}
	totals := c.totals(0)
	if !totals.GetStopped() || totals.GetFailure() != "" || totals.GetCounters().GetUnmeasuredStarted() == 0 {
		t.Errorf("totals %v", totals)
	}
	c.assign(a) // of a stage that is over: nothing starts again
	c.applied(a.GetRef())
	c.arm(a.GetRef())
	c.begin(closedStage(1, e))
	if totals := c.totals(1); totals.GetCounters().GetCompleted() != 10 {
		t.Errorf("totals %v", totals)
	}
	c.once()
}

// An agent that reconnects after its load has ended names it in Hello until the coordinator has all of its snapshots.
func TestResumeNamesWhatIsNotDelivered(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.answer = func(*spatev1.Snapshot) (string, bool) { return "", false }
	c.start(Config{})
	c.next()
	a := closedStage(0, enginetest.New(t, time.Millisecond, 0))
	c.begin(a)
	c.totals(0)
	c.leave()
	c.comeBack(func(*spatev1.Snapshot) (string, bool) { return "", true })
	if hello := c.next().GetHello(); !proto.Equal(hello.GetResume(), a.GetRef()) || !hello.GetArmed() {
		t.Errorf("hello %v", hello)
	}
	enginetest.Eventually(t, "acks", func() bool { return c.agent.outbox.Waiting() == 0 })
	c.leave()
	c.comeBack(c.answer)
	if hello := c.next().GetHello(); hello.GetResume() != nil || hello.GetArmed() {
		t.Errorf("hello %v", hello)
	}
}

// A start that comes right after a reconnect waits until the coordinator's clock is known.
func TestArmedBeforeTheClockIsKnown(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	a := closedStage(0, e)
	c.assign(a)
	c.applied(a.GetRef())
	hold := make(chan struct{})
	c.mu.Lock()
	c.hold = hold
	c.mu.Unlock()
	c.leave()
	c.comeBack(c.answer)
	if hello := c.next().GetHello(); !proto.Equal(hello.GetResume(), a.GetRef()) || hello.GetArmed() {
		t.Errorf("hello %v", hello)
	}
	c.arm(a.GetRef())
	close(hold)
	if totals := c.totals(0); totals.GetCounters().GetCompleted() != 10 || totals.GetClockUncertaintyNs() <= 0 {
		t.Errorf("totals %v", totals)
	}
}

// The next assignment waits for one that was told to end and is still draining.
func TestNextAssignmentWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, 700*time.Millisecond, 0)
	c.begin(endless(e))
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) == 2 })
	c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{
		Stop: &spatev1.Stop{Ref: endless(e).GetRef()},
	}})
	stage := closedStage(1, enginetest.New(t, 0, 0))
	c.assign(stage)
	c.applied(stage.GetRef())
	for _, s := range c.snapshots() {
		if s.GetTotals() != nil && s.GetTotals().GetCounters().GetCompleted() != 2 {
			t.Errorf("totals %v", s.GetTotals())
		}
	}
	c.arm(stage.GetRef())
	if totals := c.totals(1); totals.GetCounters().GetCompleted() != 10 {
		t.Errorf("totals %v", totals)
	}
}

func TestSecretsAreRememberedForTheirRun(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, 0, 0)
	secret := func(index uint32, run string, values map[string]string) *spatev1.Assign {
		a := closedStage(index, e)
		a.Ref.RunId, a.Secrets = run, values
		a.Stage.Target.ApiKey = "env:KEY"
		return a
	}
	c.begin(secret(0, "run", map[string]string{"env:KEY": "s3cret"}))
	c.totals(0)
	c.begin(secret(1, "run", nil))
	if totals := c.totals(1); totals.GetCounters().GetCompleted() != 10 {
		t.Errorf("totals %v", totals)
	}
	for _, run := range []string{"other", "run"} { // the values of the previous run are forgotten for good
		c.assign(secret(2, run, nil))
		reason := c.next().GetRejected().GetReason()
		if !strings.Contains(reason, "env:KEY") || !strings.Contains(reason, "submit the run again") ||
			strings.Contains(reason, "s3cret") {
			t.Errorf("reason %q", reason)
		}
	}
}

// A revision after a thousand agents came and went, one after another, exceeds gRPC's default message size.
func TestLongRevisionsAreHeard(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.interval = 10 * time.Second // no heartbeat is answered while the revision comes and is applied
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	load := &spatev1.LoadPoint{Rate: 100, Arrival: "constant", Duration: durationpb.New(time.Hour)}
	a := enginetest.AssignOf(enginetest.StageOf(load, e), 0, slices.Repeat([]uint32{1}, 1000)...)
	c.begin(a)
	stripe := proto.CloneOf(a.GetStripe())
	for joined := range uint32(6) {
		for giver := range uint32(1000) {
			weights := make([]uint32, 1000+joined+1)
			weights[giver], weights[1000+joined] = 1000+joined, 1
			stripe.Handovers = append(stripe.Handovers, &spatev1.Handover{FromRank: giver, Weights: weights,
				FromNs: int64(time.Minute)})
		}
	}
	c.revise(enginetest.AtRevision(a.GetRef(), 2), stripe)
	begin := time.Now()
	c.applied(enginetest.AtRevision(a.GetRef(), 2))
	t.Logf("%d bytes, applied in %v", proto.Size(stripe), time.Since(begin))
}
