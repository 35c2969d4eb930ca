package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// ratePlan sends 20 requests per second, each at its own time, for that many seconds.
const ratePlan = `
name: %s
on_agent_loss: %s
targets: [{name: server, endpoints: [%q], model: m}]
workloads: [{random: {isl: 10, osl: 2}}]
loads: [{rate: [20], arrival: constant, duration: %ds}]
`

// Runs that are submitted to a coordinator with a run in progress wait in their order. A waiting client is told its
// place, a waiting run can be removed, and each run gets its results. All of this holds in plaintext and with
// certificates.
func TestQueueOfRuns(t *testing.T) {
	t.Parallel()
	for name, certs := range map[string]func(*testing.T) func(role, name string) []string{"plain": nil,
		"certificates": makeCerts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own func(role, name string) []string
			if certs != nil {
				own = certs(t)
			}
			queueOfRuns(t, startLasting(t, own))
		})
	}
}

func queueOfRuns(t *testing.T, c *cluster) {
	server := simulate(t, 1, "--decode-step", "2ms")
	plan := func(name string, seconds int) string {
		return fmt.Sprintf(ratePlan, name, "fail", server.urls[0], seconds)
	}
	c.named("a")
	first := runPlan(t, plan("first", 6), c.client()...)
	first.Await(`1 stage on 1 agent: a;`)

	said := c.detach(t, plan("second", 1))
	id := regexp.MustCompile(`second-\S+`).FindString(said)
	if !strings.Contains(said, "The run waits for 1 run.") ||
		!strings.Contains(said, "spate follow "+id+" --coordinator "+c.address) {
		t.Errorf("submitted, it said\n%s", said)
	}
	third := runPlan(t, plan("third", 1), c.client()...)
	third.Await(`2 runs come before`)
	c.detach(t, plan("fourth", 1))
	table := c.says(0, "runs")
	if got := strings.Join(regexp.MustCompile(`(?m)^(first|second|third|fourth)-\S+ +(\w+)`).FindAllString(table, -1),
		"\n"); !inOrder(got, "fourth", "third", "second", "first") ||
		strings.Count(got, "waiting") != 3 || strings.Count(got, "running") != 1 {
		t.Errorf("spate runs lists\n%s", table)
	}
	if out := c.says(0, "stop",
		"fourth"); !regexp.MustCompile(`^run fourth-\S+ was removed from the queue\n$`).MatchString(out) {
		t.Errorf("stopped, it said %q", out)
	}
	if out := c.says(2, "fetch", "second"); !strings.Contains(out, "has not ended (waiting)") {
		t.Errorf("fetched too early, it said %q", out)
	}

	followed := filepath.Join(t.TempDir(), "followed")
	follower := c.spate("follow", "second", "--out", followed)
	follower.Await(`this one is next|1 run comes before|1 runs come before`)
	first.MustExit(0)
	if code := follower.Exit(); code != 0 {
		t.Errorf("spate follow exits with %d", code)
	}
	third.MustExit(0)
	table = c.says(0, "runs")
	for _, want := range []string{`third-\S+ +done `, `second-\S+ +done `, `first-\S+ +done `, `fourth-\S+ +stopped `} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(table) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if by := strings.Count(table, "anna"); c.certs != nil && by != 4 {
		t.Errorf("%d runs of anna's in\n%s", by, table)
	}
	mustFollowOneAnother(t, first, running{follower, t, followed}, third)

	again := filepath.Join(t.TempDir(), "again")
	c.says(0, "fetch", "first", "--out", again)
	for _, file := range []string{"results.json", "report.md", "vllm.txt", "histograms.hlog"} {
		if got, err := os.ReadFile(filepath.Join(again, file)); err != nil || string(got) != first.text(file) {
			t.Errorf("%s that is fetched again is another: %v", file, err)
		}
	}
	if out := c.says(4, "fetch", "fourth"); !strings.Contains(out,
		"never started, and has no results: stopped on request") {
		t.Errorf("fetched, a run that never began said %q", out)
	}
}

// detach submits a run and does not follow it.
func (c *cluster) detach(t *testing.T, plan string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plan.yaml")
	if err := os.WriteFile(path, []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	return c.says(0, "run", path, "--detach")
}

// inOrder reports whether a text contains all parts, in order.
func inOrder(text string, parts ...string) bool {
	for _, part := range parts {
		_, rest, found := strings.Cut(text, part)
		if !found {
			return false
		}
		text = rest
	}
	return true
}

// mustFollowOneAnother fails the test unless each run is complete and started after the previous run had ended.
func mustFollowOneAnother(t *testing.T, runs ...running) {
	t.Helper()
	last := ""
	for _, r := range runs {
		run := r.results().Run
		if !run.Complete || run.BeginTime == nil || run.EndTime == nil || *run.BeginTime < last {
			t.Fatalf("run %+v; the one before ended at %s", run, last)
		}
		last = *run.EndTime
	}
}
