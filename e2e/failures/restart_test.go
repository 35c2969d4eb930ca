package failures

import (
	"regexp"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// A follower of a run whose coordinator is gone may leave it: the run continues, and can be followed again.
func TestLeavingARunWhoseCoordinatorIsGone(t *testing.T) {
	t.Parallel()
	c := programs.StartLasting(t, nil)
	c.StartAgents("north")
	r, server := c.RateRun("fail", 8, 1)
	server.AwaitAnswers(20)
	c.KillCoordinator()
	r.Await(`coordinator gone`)
	r.Signal(syscall.SIGINT)
	r.MustExit(4)
	id := regexp.MustCompile(`left run (\S+), which continues`).FindStringSubmatch(r.Stderr.String())
	if id == nil {
		t.Fatalf("it said\n%s", r.Stderr.String())
	}
	c.StartCoordinator()
	process.Eventually(t, "the coordinator is back", func() bool { return c.Spate("runs").Exit() == 0 })
	again := c.Follow(id[1])
	again.MustExit(0)
	if result := again.Results(); !result.Run.Complete || result.Stages[0].Requests.Completed != 160 {
		t.Errorf("run %+v, %+v", result.Run, result.Stages[0].Requests)
	}
}
