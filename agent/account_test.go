package agent

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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

// An agent takes its last reading only when the load of all agents has ended. It does not read each second unless the
// plan asks for that.
func TestLastReadingFollowsTheLastRequestOfAllAgents(t *testing.T) {
	t.Parallel()
	c, e := newCoordinator(t), enginetest.New(t, time.Millisecond, 0)
	e.CountsEnded = true
	c.start(Config{})
	c.next()
	c.begin(enginetest.ReadingServers(closedStage(0, e)))
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
	if n := enginetest.CountedRequests(t, accounts); n != 10+3 {
		t.Errorf("the server counted %d requests", n)
	}
	if a := accounts[0]; a.GetFromNs() >= 0 || a.GetToNs() <= 0 || a.GetFailed() != 0 {
		t.Errorf("%v", a)
	}
	if last := e.Questions() - questions; last != 2 {
		t.Errorf("%d last readings", last)
	}
}

// An agent that reads servers does not keep waiting if its coordinator is gone.
func TestWaitForOtherAgentsEndsWithTheLease(t *testing.T) {
	t.Parallel()
	c, e := newCoordinator(t), enginetest.New(t, time.Millisecond, 0)
	c.lease, e.CountsEnded = time.Second, true
	c.start(Config{})
	c.next()
	c.begin(enginetest.ReadingServers(closedStage(0, e)))
	enginetest.Eventually(t, "end of the load", func() bool { return c.waits(0) })
	c.leave()
	enginetest.Eventually(t, "end of the lease", func() bool { return c.agent.supervisor.Ref() == nil })
	c.comeBack(func(*spatev1.Snapshot) (string, bool) { return "", true })
	if n, totals := enginetest.CountedRequests(t, c.account(0)), c.totals(0); n != 10 || totals.GetFailure() != "" {
		t.Errorf("%d requests, failure %q", n, totals.GetFailure())
	}
}
