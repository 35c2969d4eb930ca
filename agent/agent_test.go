package agent

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// closedStage returns an assignment of a small closed loop.
func closedStage(index uint32, e *enginetest.Engine) *spatev1.Assign {
	stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Requests: 10}, e)
	stage.Index = index
	return enginetest.AssignOf(stage, 0)
}

// endless returns an assignment of a load that continues until it is stopped.
func endless(e *enginetest.Engine) *spatev1.Assign {
	return enginetest.AssignOf(
		enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Duration: durationpb.New(time.Hour)}, e),
		0,
	)
}

func TestAgentRunsOneStageAfterTheOther(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	shutdown := c.start(Config{Region: "eu", Version: "v", Weight: 3, MaxStreams: 50})
	hello := c.next().GetHello()
	if hello.GetProtocol() != protocol || hello.GetDefinitions() != measure.Definitions ||
		hello.GetIncarnation() == 0 || hello.GetResume() != nil {
		t.Errorf("hello %v", hello)
	}
	info := hello.GetAgent()
	if info.GetName() != "a" || info.GetRegion() != "eu" || info.GetVersion() != "v" || info.GetWeight() != 3 ||
		info.GetMaxStreams() != 50 || info.GetCores() == 0 {
		t.Errorf("agent %v", info)
	}
	e := enginetest.New(t, time.Millisecond, 0)
	for index := range uint32(3) {
		c.begin(closedStage(index, e))
		totals := c.totals(index)
		if totals.GetCounters().GetCompleted() != 10 || totals.GetFailure() != "" || totals.GetStopped() {
			t.Errorf("stage %d: totals %v", index, totals)
		}
		if totals.GetClockUncertaintyNs() <= 0 || totals.GetStartErrorNs() < 0 ||
			totals.GetStartErrorNs() > int64(10*time.Second) {
			t.Errorf("stage %d: start error %d, uncertainty %d", index, totals.GetStartErrorNs(),
				totals.GetClockUncertaintyNs())
		}
	}
	if err := shutdown(); err != nil {
		t.Error(err)
	}
	for _, s := range c.once() {
		key := s.GetKey()
		if key.GetAgent() != "a" || key.GetRunId() != "run" || key.GetIncarnation() != hello.GetIncarnation() ||
			s.GetRevision() != 1 {
			t.Errorf("key %v, revision %d", key, s.GetRevision())
		}
	}
}

func TestAppliedCarriesTheOffsetOfTheClock(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	c.assign(closedStage(0, enginetest.New(t, 0, 0)))
	applied := c.next().GetApplied()
	wrong := time.Duration(applied.GetClockOffsetNs()) - skew
	if applied.GetClockUncertaintyNs() <= 0 || wrong.Abs() > time.Duration(applied.GetClockUncertaintyNs()) {
		t.Errorf("%v off, said to be within %d ns", wrong, applied.GetClockUncertaintyNs())
	}
	enginetest.Eventually(t, "heartbeats", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.heartbeats) >= 3
	})
}

func TestUnackedSnapshotsAreSentAgain(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.answer = func(*spatev1.Snapshot) (string, bool) { return "", false }
	shutdown := c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	c.begin(closedStage(0, e))
	c.totals(0)
	c.begin(closedStage(1, e))
	c.totals(1)
	before := len(c.snapshots())
	c.leave()
	c.comeBack(func(*spatev1.Snapshot) (string, bool) { return "", true })
	if c.next().GetHello() == nil {
		t.Fatal("the agent did not come back")
	}
	if err := shutdown(); err != nil { // waits for the acks
		t.Error(err)
	}
	if got := len(c.snapshots()); got != 2*before {
		t.Errorf("%d snapshots, then %d in all", before, got)
	}
	c.once()
}

func TestLoadContinuesWithoutTheCoordinator(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	shutdown := c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	a := endless(e)
	c.begin(a)
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 5 })
	c.leave()
	sofar := len(e.Requests())
	enginetest.Eventually(t, "more load", func() bool { return len(e.Requests()) > sofar+20 })
	c.comeBack(c.answer)
	if resume := c.next().GetHello().GetResume(); !proto.Equal(resume, a.GetRef()) {
		t.Errorf("resumes %v", resume)
	}
	c.assign(a) // again, although it is applied already
	if c.next().GetApplied() == nil {
		t.Error("the same assignment was not applied again")
	}
	c.stop(a.GetRef())
	if totals := c.totals(0); !totals.GetStopped() || totals.GetFailure() != "" {
		t.Errorf("totals %v", totals)
	}
	if err := shutdown(); err != nil {
		t.Error(err)
	}
	c.once()
}

func TestLeaseEndsTheLoad(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.lease = time.Second // longer than a busy machine may delay heartbeats
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	c.begin(endless(e))
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 0 })
	c.leave()
	enginetest.Eventually(t, "the end of the load", func() bool { return c.agent.supervisor.Ref() == nil })
	c.comeBack(c.answer)
	totals := c.totals(0)
	if !strings.Contains(totals.GetFailure(), "longer than the lease of 1s") ||
		totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_AGENT || totals.GetCounters().GetCancelled() != 0 {
		t.Errorf("totals %v", totals)
	}
}

func TestShutdownDeliversTotals(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	shutdown := c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Hour, 0)
	c.begin(endless(e))
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) == 2 })
	if err := shutdown(); err != nil {
		t.Error(err)
	}
	totals := c.totals(0)
	if totals.GetFailure() != "the agent was shut down" ||
		totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_AGENT ||
		totals.GetCounters().GetCancelled() != 2 {
		t.Errorf("totals %v", totals)
	}
}

func TestRefusedSnapshotEndsTheStage(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.answer = func(s *spatev1.Snapshot) (string, bool) {
		if s.GetTotals() == nil {
			return "not mine", true
		}
		return "", true
	}
	c.start(Config{})
	c.next()
	c.begin(endless(enginetest.New(t, time.Millisecond, 0)))
	if failure := c.totals(0).GetFailure(); failure != "the coordinator refused the snapshot of window 0: not mine" {
		t.Errorf("failure %q", failure)
	}
}

func TestRejectedAssignments(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{AllowedTargets: []string{"127.0.0.1"}})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	foreign := closedStage(0, e)
	foreign.Stage.Target.Endpoints = []string{"http://192.0.2.1:80"}
	c.assign(foreign)
	if got := c.next().GetRejected(); !proto.Equal(got.GetRef(), foreign.GetRef()) ||
		!strings.Contains(got.GetReason(), "192.0.2.1") ||
		got.GetKind() != spatev1.FailureKind_FAILURE_KIND_AGENT {
		t.Errorf("rejected %v", got)
	}
	dead := closedStage(0, e)
	dead.Stage.Target.Endpoints = []string{"http://127.0.0.1:1"}
	c.assign(dead)
	if got := c.next().GetRejected(); got.GetKind() != spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD ||
		!strings.Contains(got.GetReason(), "127.0.0.1:1") {
		t.Errorf("rejected %v", got)
	}
	busy := endless(e)
	c.begin(busy)
	c.assign(closedStage(1, e))
	if got := c.next().GetRejected().GetReason(); got != "the agent is busy with stage 1 of run run" {
		t.Errorf("reason %q", got)
	}
	c.stop(busy.GetRef())
	c.totals(0)
	c.begin(closedStage(1, e))
	if totals := c.totals(1); totals.GetCounters().GetCompleted() != 10 {
		t.Errorf("totals %v", totals)
	}
}

func TestUnarmedAssignmentIsReplaced(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	c.assign(closedStage(0, e))
	c.next()
	c.stop(closedStage(0, e).GetRef())
	c.assign(closedStage(1, e))
	c.next()
	c.begin(closedStage(2, e))
	c.totals(2)
	if len(e.Requests()) != 10 {
		t.Errorf("%d requests", len(e.Requests()))
	}
}

func TestConfigReportsAllErrors(t *testing.T) {
	_, err := New(Config{AllowedTargets: []string{"[", "*.ok"}})
	if err == nil {
		t.Fatal("taken")
	}
	for _, part := range []string{"name:", "coordinator:", "logger:", `allowed targets: "["`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "*.ok") {
		t.Errorf("%q complains of a good pattern", err)
	}
}
