package agent

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// reading makes the assignment's agent read the metrics of all its servers.
func reading(a *spatev1.Assign) *spatev1.Assign {
	for i := range a.GetStage().GetTarget().GetEndpoints() {
		a.ServerSources = append(a.ServerSources, uint32(i))
	}
	return a
}

// waits reports whether the agent says that its load has ended and waits for the other agents.
func (c *coordinator) waits(stage uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, h := range c.heartbeats {
		if h.GetEnded() != nil && h.GetEnded().GetStageIndex() == stage {
			return true
		}
	}
	return false
}

// account returns what the servers counted in a stage, once it has ended.
func (c *coordinator) account(stage uint32) []*spatev1.ServerAccount {
	c.totals(stage)
	for _, s := range c.snapshots() {
		if s.GetStageIndex() == stage && s.GetTotals() != nil {
			return s.GetServerAccounts()
		}
	}
	return nil
}

// requestsOf returns the number of requests in an account.
func requestsOf(t *testing.T, accounts []*spatev1.ServerAccount) uint64 {
	t.Helper()
	if len(accounts) != 1 || len(accounts[0].GetHistograms()) != 1 {
		t.Fatalf("%v", accounts)
	}
	return accounts[0].GetHistograms()[0].GetCount()
}

// An agent takes its last reading only when the load of all agents has ended. It does not read each second unless the
// plan asks for that.
func TestLastReadingFollowsTheLastRequestOfAllAgents(t *testing.T) {
	c, e := newCoordinator(t), enginetest.New(t, time.Millisecond, 0)
	e.CountsEnded = true
	c.start(Config{})
	c.next()
	c.begin(reading(closedStage(0, e)))
	enginetest.Eventually(t, "end of the load", func() bool { return c.waits(0) })
	for _, s := range c.snapshots() {
		if s.GetTotals() != nil {
			t.Fatal("it did not wait for the others")
		}
	}
	for range 3 { // requests of another agent
		answer, err := http.Post(e.URL+"/v1/completions", "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		answer.Body.Close()
	}
	questions := e.Questions()
	c.mu.Lock()
	c.allEnded = true
	c.mu.Unlock()
	accounts := c.account(0)
	if n := requestsOf(t, accounts); n != 10+3 {
		t.Errorf("the server counted %d requests", n)
	}
	if a := accounts[0]; a.GetFromNs() >= 0 || a.GetToNs() <= 0 || a.GetFailed() != 0 {
		t.Errorf("%v", a)
	}
	if last := e.Questions() - questions; last != 2 {
		t.Errorf("%d last readings", last)
	}
}

// Requests of a warm-up are not in the account, except those in flight at its end.
func TestAccountStartsAfterTheWarmUp(t *testing.T) {
	e := enginetest.New(t, 100*time.Millisecond, 0)
	e.CountsEnded = true
	u := Begin(t, reading(enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 3, WarmupRequests: 2}, e), 0)),
		ready.Limits{})
	enginetest.Eventually(t, "end of the load", func() bool { return u.account.waiting.Load() })
	u.endWait()
	o := u.Wait(t)
	accounts := o.snapshots[len(o.snapshots)-1].GetServerAccounts()
	if n := requestsOf(t, accounts); n != 3 || accounts[0].GetFromNs() < (150*time.Millisecond).Nanoseconds() {
		t.Errorf("%d requests from %v on", n, time.Duration(accounts[0].GetFromNs()))
	}
}

// An agent that reads servers does not keep waiting if its coordinator is gone, or if its load has failed.
func TestWaitForOtherAgentsEnds(t *testing.T) {
	t.Run("with the lease", func(t *testing.T) {
		c, e := newCoordinator(t), enginetest.New(t, time.Millisecond, 0)
		c.lease, e.CountsEnded = 300*time.Millisecond, true
		c.start(Config{})
		c.next()
		c.begin(reading(closedStage(0, e)))
		enginetest.Eventually(t, "end of the load", func() bool { return c.waits(0) })
		c.leave()
		enginetest.Eventually(t, "end of the lease", func() bool { return c.agent.runner.ref() == nil })
		c.comeBack(func(*spatev1.Snapshot) (string, bool) { return "", true })
		if n, totals := requestsOf(t, c.account(0)), c.totals(0); n != 10 || totals.GetFailure() != "" {
			t.Errorf("%d requests, failure %q", n, totals.GetFailure())
		}
	})
	t.Run("with a stop", func(t *testing.T) {
		e := enginetest.New(t, time.Millisecond, 0)
		e.CountsEnded = true
		u := Begin(t, reading(closedStage(0, e)), ready.Limits{})
		enginetest.Eventually(t, "end of the load", func() bool { return u.account.waiting.Load() })
		u.stop(false, true)
		if o := u.Wait(t); o.Totals.GetStopped() {
			t.Error("a load that has ended was stopped")
		}
	})
	t.Run("with a failure", func(t *testing.T) {
		e := enginetest.New(t, time.Millisecond, 0)
		e.CountsEnded = true
		load := &spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(time.Hour)}
		u := Begin(t, reading(enginetest.AssignOf(enginetest.StageOf(load, e), 0)), ready.Limits{})
		enginetest.Eventually(t, "requests", func() bool { return len(e.Requests()) > 2 })
		u.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "broken")
		if o := u.Wait(t); len(o.snapshots[len(o.snapshots)-1].GetServerAccounts()) != 0 {
			t.Error("a load that failed has an account")
		}
	})
}

// If the plan does not ask for metrics, a server without any is noted once and not asked again.
func TestServersWithoutMetricsAreNoted(t *testing.T) {
	e, f := enginetest.New(t, time.Millisecond, 0), enginetest.New(t, time.Millisecond, 0)
	a := reading(enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 2}, e, f), 0))
	u := Begin(t, a, ready.Limits{})
	note := strings.Join(u.Found.Preparation.GetNotes(), " ")
	if want := "No server metrics at " + e.URL +
		"/metrics and 1 more: it answered with status 404"; !strings.Contains(note, want) {
		t.Errorf("noted: %q", note)
	}
	questions := e.Questions()
	if o := u.Wait(t); o.Totals.GetFailure() != "" || e.Questions() != questions {
		t.Errorf("%v; asked %d times more", o.Totals, e.Questions()-questions)
	}
}
