package failures

import (
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// A run survives a kill and a restart of its coordinator. The client that submitted it and its followers are notified
// and see it to its end, and nothing is missing or counted twice. A run that waits behind it also runs. This holds in
// plaintext and with certificates, after a kill and after a SIGTERM.
func TestRunsSurviveTheirCoordinator(t *testing.T) {
	t.Parallel()
	t.Run("plain, killed", func(t *testing.T) {
		t.Parallel()
		runsSurvive(t, programs.StartLasting(t, nil), syscall.SIGKILL, "the connection broke")
	})
	t.Run("certificates, terminated", func(t *testing.T) {
		t.Parallel()
		runsSurvive(t, programs.StartLasting(t, programs.MakeCerts(t)), syscall.SIGTERM, "the coordinator is closing")
	})
}

func runsSurvive(t *testing.T, c *programs.Cluster, by syscall.Signal, reason string) {
	c.StartAgents("north", "south")
	r, server := c.RateRun("fail", 15, 2)
	r.Await(`1 stage on 2 agents`)
	follower := c.Follow("latest")
	follower.Await(`1 stage on 2 agents: north, south`)
	c.Detach(programs.RatePlan("behind", "fail", server.URLs[0], 1))
	server.AwaitAnswers(60)

	c.EndCoordinator(by)
	for _, p := range []*process.Process{r.Process, follower.Process} {
		p.Await(`! coordinator gone \(` + reason + `\): retrying for 2m; agents continue`)
	}
	if out := c.Says(2, "runs"); !strings.Contains(out,
		"cannot be reached: refuses connections: nothing listens there") {
		t.Errorf("without a coordinator, spate runs says %q", out)
	}
	c.StartCoordinator()
	for _, p := range []*process.Process{r.Process, follower.Process} {
		p.Await(`! coordinator back\n! the coordinator was restarted; the run continues`)
	}
	r.MustExit(0)
	follower.MustExit(0)
	result := r.Results()
	if !result.Run.Complete || result.Run.Restarts != 1 || result.Stages[0].Requests.Completed != 300 {
		t.Errorf("run %+v, %+v", result.Run, result.Stages[0].Requests)
	}
	r.MustSend(0, 15)
	if got := r.Text("report.md"); got != follower.Text("report.md") ||
		!strings.Contains(got, "The coordinator was restarted during the run: once") {
		t.Errorf("report.md\n%s\nof who followed\n%s", got, follower.Text("report.md"))
	}
	if out := c.Spate("follow", "behind"); out.Exit() != 0 {
		t.Errorf("the run that waited: exit code %d", out.Exit())
	}
	if table := c.Says(0, "runs"); !regexp.MustCompile(`(?m)^behind-\S+ +done .*\nfail-\S+ +done `).MatchString(table) {
		t.Errorf("spate runs lists\n%s", table)
	}
}

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
	id := regexp.MustCompile(`left run (\S+) while its coordinator at ` + regexp.QuoteMeta(c.Address) +
		` was gone; it continues when the coordinator is back`).FindStringSubmatch(r.Stderr.String())
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
