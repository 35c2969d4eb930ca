package failures

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

// shortLeases let lost agents' assignments be taken over, or dropped, soon.
var shortLeases = []string{"--lease", "5s", "--reassign-lease", "5s"}

// mustSayIncomplete fails the test unless everything that a person reads says that something is missing, and what.
func mustSayIncomplete(t *testing.T, r programs.Running, missing string) {
	t.Helper()
	result := r.Results()
	if result.Run.Complete || *result.Run.Outcome != "done" || len(result.Run.Missing) != 1 {
		t.Errorf("run %+v", result.Run)
	}
	flat := strings.Join(strings.Fields(r.Stdout.String()), " ")
	for what, text := range map[string]string{
		"the table": regexp.MustCompile(`! 20 req/s constant: PARTIAL: .*`).FindString(flat),
		"report.md": r.Text("report.md"), "vllm.txt": r.Text("vllm.txt"),
		"the last line": regexp.MustCompile(`spate: the run reached its end, but its result is incomplete: stage 1: .*\n$`).FindString(r.Stderr.String()),
	} {
		if !regexp.MustCompile(missing).MatchString(text) {
			t.Errorf("%s does not say %q:\n%s", what, missing, text)
		}
	}
	if !strings.Contains(r.Text("report.md"), "**PARTIAL RESULT.**") {
		t.Error("report.md is not marked as partial")
	}
}

// When an agent is killed under "reassign", others replace it from a recorded moment on, and an agent that joins then
// takes part at once. No request is sent twice, and only requests of the killed agent from the time in between are
// missing.
func TestReassignReplacesTheKilled(t *testing.T) {
	t.Parallel()
	c := programs.StartLasting(t, nil, shortLeases...)
	c.StartAgents("north", "south", "west")
	r, server := c.RateRun("reassign", 28, 3)
	r.Await(`1 stage on 3 agents`)
	server.AwaitAnswers(40)
	c.Agents["south"].Signal(syscall.SIGKILL)
	lost := r.Await(`! agent south \(here\) was lost \(.*\): 33.3 % of the load is missing from second (\d+) on; unless it is back by second \d+ the others take it over`)[1]
	said := r.Await(`agent south is dropped \(.*\): its 33.3 % of the load is missing from second ` + lost +
		` on, until it is taken over by north, west in second (\d+)`)
	c.Agent("east", 1, "--coordinator", c.Address)
	joins := r.Await(`agent east \(here\) joined: .*`)[0]
	r.MustExit(3)
	mustSayIncomplete(t, r, `agent south \(33.3 % of the load\) lost: seconds `+lost+
		` to \d+ are missing, then taken over`)
	r.MustSend(0, secondOf(t, lost))
	r.MustSend(secondOf(t, said[1])+1, 28)
	for i, agents := range r.SentBy() {
		if len(agents) != 1 {
			t.Errorf("request %d was sent by %q", i, agents)
		}
	}
	if table := c.Says(0, "runs"); !regexp.MustCompile(`(?m)^reassign-\S+ +incomplete `).MatchString(table) {
		t.Errorf("spate runs lists\n%s", table)
	}
	if out := c.Says(3, "runs", "fetch", "latest"); !strings.Contains(out, "its result is incomplete") {
		t.Errorf("fetched, it said\n%s", out)
	}
	if !sends(r, "east") {
		t.Errorf("%q, and sent nothing", joins)
	}
}

func secondOf(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// sends reports whether an agent sent anything.
func sends(r programs.Running, agent string) bool {
	return slices.ContainsFunc(r.Rows()[0], func(row programs.Row) bool { return row.Agent == agent })
}

// An agent that joins in the middle of a stage takes its share from a moment on, and nothing is missing.
func TestJoiningUnderReassign(t *testing.T) {
	t.Parallel()
	c := programs.StartLasting(t, nil)
	c.StartAgents("north")
	r, server := c.RateRun("reassign", 15, 1)
	r.Await(`1 stage on 1 agent`)
	server.AwaitAnswers(20)
	c.Agent("south", 1, "--coordinator", c.Address)
	r.Await(`agent south \(here\) joined: `)
	r.MustExit(0)
	result := r.Results()
	if !result.Run.Complete || len(result.Run.Agents) != 2 || result.Stages[0].Requests.Completed != 300 {
		t.Errorf("run %+v, %+v", result.Run, result.Stages[0].Requests)
	}
	r.MustSend(0, 15)
	if !sends(r, "south") || !sends(r, "north") {
		t.Error("one of the two sent nothing")
	}
	if !regexp.MustCompile(`\| south \| here \| .* \| stage 1: joined at second \d`).MatchString(r.Text("report.md")) {
		t.Errorf("report.md does not say that south joined:\n%s", r.Text("report.md"))
	}
}
