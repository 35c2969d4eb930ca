package agent

import (
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A coordinator that arms an assignment which the agent does not have is wrong, and would wait for it forever. A new
// Hello tells it what the agent has, so that it can correct that.
func TestArmedWithoutAnAssignment(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Requests: 10}, e), 0)
	c.arm(a.GetRef())
	if m := c.next().GetHello(); m == nil || m.GetResume() != nil {
		t.Fatalf("got %v instead of Hello", m)
	}
	c.begin(a)
	if totals := c.totals(0); totals.GetCounters().GetCompleted() != 10 {
		t.Errorf("totals %v", totals)
	}
}

// The agent neither waits for an impossible start nor catches up on it second by second.
func TestArmedForAnImpossibleTime(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]int64{"before all": math.MinInt64, "after all": math.MaxInt64,
		"long ago": -1 << 60} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCoordinator(t)
			c.start(Config{})
			c.next()
			e := enginetest.New(t, time.Millisecond, 0)
			a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Requests: 10}, e), 0)
			c.assign(a)
			c.applied(a.GetRef())
			c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Arm{Arm: &spatev1.Arm{Ref: a.GetRef(),
				StartClockNs: start}}})
			if m := c.next().GetHello(); !proto.Equal(m.GetResume(), a.GetRef()) || m.GetArmed() {
				t.Fatalf("got %v instead of Hello", m)
			}
			c.arm(a.GetRef())
			if totals := c.totals(0); totals.GetCounters().GetCompleted() != 10 {
				t.Errorf("totals %v", totals)
			}
		})
	}
}

// A machine that slept would continue in windows that are over: its measurements would be counted in the wrong place.
func TestClockThatStoodStillEndsTheLoad(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	c.begin(endless(e))
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 0 })
	c.mu.Lock()
	c.slept = 3 * time.Second
	c.mu.Unlock()
	totals := c.totals(0)
	if !strings.Contains(totals.GetFailure(), "stood still for ") ||
		totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_AGENT {
		t.Errorf("totals %v", totals)
	}
}

// An agent that is armed long after a stage's start, by a coordinator that was gone, sends little about the time
// before.
func TestArmedLate(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2,
		Duration: durationpb.New(10*time.Hour + 2*time.Second)}, e), 0)
	c.assign(a)
	c.applied(a.GetRef())
	c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Arm{Arm: &spatev1.Arm{
		Ref: a.GetRef(), StartClockNs: int64(clock.Now().Add(skew - 10*time.Hour)),
	}}})
	if totals := c.totals(0); totals.GetCounters().GetCompleted() == 0 || totals.GetSnapshots() > 5 {
		t.Errorf("totals %v", totals)
	}
	if first := c.once()[0]; first.FirstWindow == nil || first.GetFirstWindow() != 0 || first.GetWindow() != 35_999 {
		t.Errorf("first snapshot %v", first)
	}
}
