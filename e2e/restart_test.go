package e2e

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/internal/process"
)

// kill kills the coordinator as a power cut does.
func (c *cluster) kill() { c.end(syscall.SIGKILL) }

// end ends the coordinator by a signal.
func (c *cluster) end(by syscall.Signal) {
	c.t.Helper()
	c.coordinator.Signal(by)
	<-c.coordinator.Ended()
}

// A run survives a kill and a restart of its coordinator. The client that submitted it and its followers are notified
// and see it to its end, and nothing is missing or counted twice. A run that waits behind it also runs. This holds in
// plaintext and with certificates, after a kill and after a SIGTERM.
func TestRunsSurviveTheirCoordinator(t *testing.T) {
	t.Parallel()
	t.Run("plain, killed", func(t *testing.T) {
		t.Parallel()
		runsSurvive(t, startLasting(t, nil), syscall.SIGKILL, "the connection broke")
	})
	t.Run("certificates, terminated", func(t *testing.T) {
		t.Parallel()
		runsSurvive(t, startLasting(t, makeCerts(t)), syscall.SIGTERM, "the coordinator is closing")
	})
}

func runsSurvive(t *testing.T, c *cluster, by syscall.Signal, reason string) {
	c.named("north", "south")
	r, server := c.rateRun(t, "fail", 15, 2)
	r.Await(`1 stage on 2 agents`)
	followed := filepath.Join(t.TempDir(), "followed")
	follower := running{c.spate("follow", "latest", "--out", followed), t, followed}
	follower.Await(`1 stage on 2 agents: north, south`)
	c.detach(t, fmt.Sprintf(ratePlan, "behind", "fail", server.urls[0], 1))
	awaitAnswers(t, server, 60)

	c.end(by)
	for _, p := range []*process.Process{r.Process, follower.Process} {
		p.Await(`! coordinator gone \(` + reason + `\): retrying for 2m; agents continue`)
	}
	if out := c.says(2, "runs"); !strings.Contains(out,
		"cannot be reached: refuses connections: nothing listens there") {
		t.Errorf("without a coordinator, spate runs says %q", out)
	}
	c.startCoordinator()
	for _, p := range []*process.Process{r.Process, follower.Process} {
		p.Await(`! coordinator back\n! the coordinator was restarted; the run continues`)
	}
	r.MustExit(0)
	follower.MustExit(0)
	result := r.results()
	if !result.Run.Complete || result.Run.Restarts != 1 || result.Stages[0].Requests.Completed != 300 {
		t.Errorf("run %+v, %+v", result.Run, result.Stages[0].Requests)
	}
	r.mustSend(0, 15)
	if got := r.text("report.md"); got != follower.text("report.md") ||
		!strings.Contains(got, "The coordinator was restarted during the run: once") {
		t.Errorf("report.md\n%s\nof who followed\n%s", got, follower.text("report.md"))
	}
	if out := c.spate("follow", "behind"); out.Exit() != 0 {
		t.Errorf("the run that waited: exit code %d", out.Exit())
	}
	if table := c.says(0, "runs"); !regexp.MustCompile(`(?m)^behind-\S+ +done .*\nfail-\S+ +done `).MatchString(table) {
		t.Errorf("spate runs lists\n%s", table)
	}
}

// A follower of a run whose coordinator is gone may leave it: the run continues, and can be followed again.
func TestLeavingARunWhoseCoordinatorIsGone(t *testing.T) {
	t.Parallel()
	c := startLasting(t, nil)
	c.named("north")
	r, server := c.rateRun(t, "fail", 8, 1)
	awaitAnswers(t, server, 20)
	c.kill()
	r.Await(`coordinator gone`)
	r.Signal(syscall.SIGINT)
	r.MustExit(4)
	id := regexp.MustCompile(`left run (\S+) while its coordinator at ` + regexp.QuoteMeta(c.address) +
		` was gone; it continues when the coordinator is back`).FindStringSubmatch(r.Stderr.String())
	if id == nil {
		t.Fatalf("it said\n%s", r.Stderr.String())
	}
	c.startCoordinator()
	process.Eventually(t, "the coordinator is back", func() bool { return c.spate("runs").Exit() == 0 })
	dir := filepath.Join(t.TempDir(), "again")
	again := running{c.spate("follow", id[1], "--out", dir), t, dir}
	again.MustExit(0)
	if result := again.results(); !result.Run.Complete || result.Stages[0].Requests.Completed != 160 {
		t.Errorf("run %+v, %+v", result.Run, result.Stages[0].Requests)
	}
}
