package e2e

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// shortLeases let lost agents' assignments be taken over, or dropped, soon.
var shortLeases = []string{"--lease", "5s", "--reassign-lease", "5s"}

// rateRun runs a plan of 20 requests per second for that many seconds.
func (c *cluster) rateRun(t *testing.T, policy string, seconds, agents int) (running, simulation) {
	t.Helper()
	server := simulate(t, 1, "--decode-step", "2ms")
	return runPlan(t, fmt.Sprintf(ratePlan, policy, policy, server.urls[0], seconds),
		append(c.client(), "--min-agents", fmt.Sprint(agents))...), server
}

// sentBy lists the agents that sent each request, by index.
func (r running) sentBy() map[uint64][]string {
	r.t.Helper()
	by := map[uint64][]string{}
	for _, row := range r.rows()[0] {
		by[row.Index] = append(by[row.Index], row.Agent)
	}
	return by
}

// mustSend fails the test unless each request between two seconds was sent exactly once.
func (r running) mustSend(from, to uint64) {
	r.t.Helper()
	by := r.sentBy()
	for i := 20 * from; i < 20*to; i++ {
		if len(by[i]) != 1 {
			r.t.Errorf("request %d of second %d was sent by %q", i, i/20, by[i])
		}
	}
}

// mustSayIncomplete fails the test unless everything that a person reads says that something is missing, and what.
func (r running) mustSayIncomplete(missing string) {
	r.t.Helper()
	result := r.results()
	if result.Run.Complete || *result.Run.Outcome != "done" || len(result.Run.Missing) != 1 {
		r.t.Errorf("run %+v", result.Run)
	}
	flat := strings.Join(strings.Fields(r.Stdout.String()), " ")
	for what, text := range map[string]string{
		"the table": regexp.MustCompile(`! 20 req/s constant: PARTIAL: .*`).FindString(flat),
		"report.md": r.text("report.md"), "vllm.txt": r.text("vllm.txt"),
		"the last line": regexp.MustCompile(`spate: the run reached its end, but its result is incomplete: stage 1: .*\n$`).FindString(r.Stderr.String()),
	} {
		if !regexp.MustCompile(missing).MatchString(text) {
			r.t.Errorf("%s does not say %q:\n%s", what, missing, text)
		}
	}
	if !strings.Contains(r.text("report.md"), "**PARTIAL RESULT.**") {
		r.t.Error("report.md is not marked as partial")
	}
}

// When an agent is killed under "degrade", its share is missing from then on. The shares of the others are complete,
// and everything says what is missing.
func TestDegradeGoesOnWithoutTheKilled(t *testing.T) {
	t.Parallel()
	c := startLasting(t, nil, shortLeases...)
	c.named("north", "south", "west")
	r, server := c.rateRun(t, "degrade", 20, 3)
	r.Await(`1 stage on 3 agents: north, south, west; `)
	awaitAnswers(t, server, 40)
	c.agents["south"].Signal(syscall.SIGKILL)
	second := r.Await(`! agent south \(here\) was lost \(control stream broken; no heartbeat for 3\.\ds\): 33.3 % of the load is missing from second (\d+) on`)[1]
	r.Await(`✗ agent south is dropped \(lost: .*\): 33.3 % of the load is missing from second ` + second + ` on`)
	r.MustExit(3)
	r.Await(`20 req/s constant .* \(incomplete\)`)
	r.mustSayIncomplete(`agent south \(33.3 % of the load\) lost: seconds ` + second +
		` to \d+, the last, are missing \(lost: control stream broken; no heartbeat for 3\.\ds\)`)
	by := r.sentBy()
	for i := range uint64(20 * 20) {
		if i%3 != 1 && len(by[i]) != 1 {
			t.Errorf("request %d was sent by %q", i, by[i])
		}
	}
	if table := c.says(0, "runs"); !regexp.MustCompile(`(?m)^degrade-\S+ +incomplete `).MatchString(table) {
		t.Errorf("spate runs lists\n%s", table)
	}
	if out := c.says(3, "fetch", "latest"); !strings.Contains(out, "its result is incomplete") {
		t.Errorf("fetched, it said\n%s", out)
	}
}

// When an agent is killed under "reassign", others replace it from a recorded moment on, and an agent that joins then
// takes part at once. No request is sent twice, and only requests of the killed agent from the time in between are
// missing.
func TestReassignReplacesTheKilled(t *testing.T) {
	t.Parallel()
	c := startLasting(t, nil, shortLeases...)
	c.named("north", "south", "west")
	r, server := c.rateRun(t, "reassign", 28, 3)
	r.Await(`1 stage on 3 agents`)
	awaitAnswers(t, server, 40)
	c.agents["south"].Signal(syscall.SIGKILL)
	lost := r.Await(`! agent south \(here\) was lost \(.*\): 33.3 % of the load is missing from second (\d+) on; unless it is back by second \d+ the others take it over`)[1]
	said := r.Await(`agent south is dropped \(.*\): its 33.3 % of the load is missing from second ` + lost +
		` on, until it is taken over by north and west in second (\d+)`)
	c.agent("east", 1, "--coordinator", c.address)
	joins := r.Await(`agent east \(here\) joined: .*`)[0]
	r.MustExit(3)
	r.mustSayIncomplete(`agent south \(33.3 % of the load\) lost: seconds ` + lost +
		` to \d+ are missing, then taken over`)
	r.mustSend(0, secondOf(t, lost))
	r.mustSend(secondOf(t, said[1])+1, 28)
	for i, agents := range r.sentBy() {
		if len(agents) != 1 {
			t.Errorf("request %d was sent by %q", i, agents)
		}
	}
	if !r.sends("east") {
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
func (r running) sends(agent string) bool {
	return slices.ContainsFunc(r.rows()[0], func(row row) bool { return row.Agent == agent })
}

// An agent that joins in the middle of a stage takes its share from a moment on, and nothing is missing.
func TestJoiningUnderReassign(t *testing.T) {
	t.Parallel()
	c := startLasting(t, nil)
	c.named("north")
	r, server := c.rateRun(t, "reassign", 15, 1)
	r.Await(`1 stage on 1 agent`)
	awaitAnswers(t, server, 20)
	c.agent("south", 1, "--coordinator", c.address)
	r.Await(`agent south \(here\) joined: `)
	r.MustExit(0)
	result := r.results()
	if !result.Run.Complete || len(result.Run.Agents) != 2 || result.Stages[0].Requests.Completed != 300 {
		t.Errorf("run %+v, %+v", result.Run, result.Stages[0].Requests)
	}
	r.mustSend(0, 15)
	if !r.sends("south") || !r.sends("north") {
		t.Error("one of the two sent nothing")
	}
	if !regexp.MustCompile(`\| south \| here \| .* \| stage 1: joined at second \d`).MatchString(r.text("report.md")) {
		t.Errorf("report.md does not say that south joined:\n%s", r.text("report.md"))
	}
}
