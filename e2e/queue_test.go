package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// Runs that are submitted to a coordinator with a run in progress wait in their order. A waiting client is told its
// place, a waiting run can be removed, and each run gets its results. All of this holds in plaintext and with
// certificates.
func TestQueueOfRuns(t *testing.T) {
	t.Parallel()
	for name, certs := range map[string]func(*testing.T) func(role, name string) []string{"plain": nil,
		"certificates": programs.MakeCerts} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var own func(role, name string) []string
			if certs != nil {
				own = certs(t)
			}
			queueOfRuns(t, programs.StartLasting(t, own), certs != nil)
		})
	}
}

func queueOfRuns(t *testing.T, c *programs.Cluster, certified bool) {
	server := programs.Simulate(t, 1, "--decode-step", "2ms")
	plan := func(name string, seconds int) string {
		return programs.RatePlan(name, "fail", server.URLs[0], seconds)
	}
	c.StartAgents("a")
	first := programs.RunPlan(t, plan("first", 600), c.Client()...)
	first.Await(`1 stage on 1 agent: a;`)

	said := c.Detach(plan("second", 1))
	id := regexp.MustCompile(`second-\S+`).FindString(said)
	if !strings.Contains(said, "The run waits: it is number 1 in the queue.") ||
		!strings.Contains(said, "spate runs follow "+id+" --coordinator "+c.Address) {
		t.Errorf("submitted, it said\n%s", said)
	}
	third := programs.RunPlan(t, plan("third", 1), c.Client()...)
	third.Await(`the same server is loaded by run first-\S+.*; 1 run in the queue comes before`)
	c.Detach(plan("fourth", 1))
	table := c.Says(0, "runs")
	if got := strings.Join(regexp.MustCompile(`(?m)^(first|second|third|fourth)-\S+ +(\w+)`).FindAllString(table, -1),
		"\n"); !inOrder(got, "fourth", "third", "second", "first") ||
		strings.Count(got, "waiting") != 3 || strings.Count(got, "running") != 1 {
		t.Errorf("spate runs lists\n%s", table)
	}
	if out := c.Says(0, "runs", "stop",
		"fourth"); !regexp.MustCompile(`^run fourth-\S+ was removed from the queue\n$`).MatchString(out) {
		t.Errorf("stopped, it said %q", out)
	}
	if out := c.Says(2, "runs", "fetch", "second"); !strings.Contains(out, "has not ended (waiting)") {
		t.Errorf("fetched too early, it said %q", out)
	}

	follower := c.Follow("second")
	follower.Await(`this run is next`)
	c.Says(0, "runs", "stop", "first")
	first.MustExit(4)
	if code := follower.Exit(); code != 0 {
		t.Errorf("spate runs follow exits with %d", code)
	}
	third.MustExit(0)
	table = c.Says(0, "runs")
	for _, want := range []string{`third-\S+ +done `, `second-\S+ +done `, `first-\S+ +stopped `, `fourth-\S+ +stopped `} {
		if !regexp.MustCompile(`(?m)^` + want).MatchString(table) {
			t.Errorf("no %q in\n%s", want, table)
		}
	}
	if by := strings.Count(table, "anna"); certified && by != 4 {
		t.Errorf("%d runs of anna's in\n%s", by, table)
	}
	mustFollowOneAnother(t, first, follower, third)
	for _, r := range []programs.Running{follower, third} {
		if run := r.Results().Run; !run.Complete {
			t.Errorf("run %+v", run)
		}
	}

	mustFetch(t, c, first)
}

// mustFetch fails the test unless the first run can be fetched again, and the fourth, which never started, has no
// results.
func mustFetch(t *testing.T, c *programs.Cluster, first programs.Running) {
	t.Helper()
	again := filepath.Join(t.TempDir(), "again")
	c.Says(4, "runs", "fetch", "first", "--out", again)
	for _, file := range []string{"results.json", "report.md", "vllm.txt", "histograms.hlog"} {
		if got, err := os.ReadFile(filepath.Join(again, file)); err != nil || string(got) != first.Text(file) {
			t.Errorf("%s that is fetched again is another: %v", file, err)
		}
	}
	if out := c.Says(4, "runs", "fetch", "fourth"); !strings.Contains(out,
		"never started, and has no results: stopped on request") {
		t.Errorf("fetched, a run that never began said %q", out)
	}
}

// With --all the queue is empty and all runs end. If the coordinator is lost at that moment, agents end their load by
// themselves, at the latest when their lease is over, and the restarted coordinator has all runs as stopped.
func TestStopAll(t *testing.T) {
	t.Parallel()
	c := programs.StartLasting(t, nil, "--lease", "5s")
	c.StartAgents("a", "b")
	var servers []programs.Simulation
	for i := range 2 {
		server := programs.Simulate(t, 1, "--decode-step", "2ms")
		servers = append(servers, server)
		c.Detach(programs.RatePlan(fmt.Sprint("run", i), "fail", server.URLs[0], 600) + "agents: {count: 1}\n")
	}
	c.Detach(programs.RatePlan("whole", "fail", "http://127.0.0.1:9", 600))
	for _, server := range servers {
		server.AwaitAnswers(20)
	}
	said := c.Says(0, "runs", "stop", "--all")
	c.KillCoordinator()
	if strings.Count(said, "removed from the queue") != 1 || strings.Count(said, "starts no more requests") != 2 {
		t.Errorf("it said\n%s", said)
	}
	served, same := 0, 0
	process.Eventually(t, "the agents send nothing more", func() bool {
		now := len(servers[0].Records()) + len(servers[1].Records())
		if same++; now != served {
			served, same = now, 0
		}
		return same == 100 // at 40 requests per second
	})
	c.StartCoordinator()
	c.Coordinator.Await(`"coordinator serves"`)
	for i, server := range servers {
		run := c.Follow(fmt.Sprint("run", i))
		run.MustExit(4)
		stage := run.Results().Stages[0]
		if got := uint64(len(server.Records())); got != stage.Requests.Started {
			t.Errorf("run %d: the server had %d requests, %d were started", i, got, stage.Requests.Started)
		}
	}
	if table := c.Says(0, "runs"); strings.Count(table, " stopped ") != 3 {
		t.Errorf("spate runs lists\n%s", table)
	}
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

// mustFollowOneAnother fails the test unless each run started after the previous run had ended.
func mustFollowOneAnother(t *testing.T, runs ...programs.Running) {
	t.Helper()
	last := ""
	for _, r := range runs {
		run := r.Results().Run
		if run.BeginTime == nil || run.EndTime == nil || *run.BeginTime < last {
			t.Fatalf("run %+v; the one before ended at %s", run, last)
		}
		last = *run.EndTime
	}
}
