package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/access"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// planOn returns a plan that takes some agents and loads a server, in one stage.
func planOn(agents int, server string) string {
	text := strings.Replace(planOf(`{concurrency: [1], requests: 4}`), "east.example:8000", server, 1)
	return text + fmt.Sprintf("agents: {count: %d}\n", agents)
}

// agentsIn returns the names of the agents that were assigned a part of a run's stages, by its ledger.
func agentsIn(t *testing.T, l *ledger.Ledger) (names []string) {
	t.Helper()
	records, err := l.Stages()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		for _, a := range rec.GetAgents() {
			names = append(names, a.GetAgent().GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Runs are in progress at once, each with its agents. The stop of one, and what its agent sends, do not touch the
// other. A run that loads the server of another waits for it, although an agent is free.
func TestSeveralRunsAtOnce(t *testing.T) {
	h := start(t)
	a, b, c, d := h.agent("a"), h.agent("b"), h.agent("c"), h.agent("d")
	first, second := h.submitPlan(1, planOn(2, "one")), h.submitPlan(1, planOn(1, "two"))
	third := h.submitPlan(1, planOn(1, "ONE"))
	if s := h.c.Stats(); !slices.Equal(s.Runs, []string{first, second}) || s.Waiting != 1 || s.Agents["busy"] != 3 {
		t.Fatalf("%+v", s)
	}
	for _, x := range []*agent{a, b, c} {
		x.apply()
	}
	for _, x := range []*agent{a, b, c} {
		x.armed()
	}
	foreign := c.snapshot(0)
	foreign.Key.RunId = first
	if m := c.deliver(foreign); m.GetRefused() == "" {
		t.Error("a snapshot of another run's agent is taken")
	}
	if _, err := h.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: second}); err != nil {
		t.Fatal(err)
	}
	c.stopped()
	c.sequence-- // of the refused one
	stopped := c.last(0)
	stopped.Totals.Stopped = true
	c.acked(stopped)
	if end := h.end(second); end.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED {
		t.Errorf("the run that was stopped: %v", end)
	}
	for _, x := range []*agent{a, b} {
		x.acked(x.snapshot(0))
		x.acked(x.last(1))
	}
	if end := h.end(first); !end.GetComplete() {
		t.Errorf("the other run: %v", end)
	}
	runStage(a)
	if end := h.end(third); !end.GetComplete() {
		t.Errorf("the run that waited: %v", end)
	}
	for id, want := range map[string][]string{first: {"a", "b"}, second: {"c"}, third: {"a"}} {
		if got := agentsIn(t, h.fetch(id)); !slices.Equal(got, want) {
			t.Errorf("agents of %s: %v, want %v", id, got, want)
		}
	}
	d.say(heartbeat(1)) // it never heard of a run
	if m := d.hear(); m.GetRenewed() == nil {
		t.Errorf("the agent that belonged to no run hears %v", m)
	}
}

// With a limit of one run, runs follow one another.
func TestAtMostSoManyRuns(t *testing.T) {
	h := start(t, func(c *Config) { c.MaxRuns = 1 })
	a, b := h.agent("a"), h.agent("b")
	first, second := h.submitPlan(1, planOn(1, "one")), h.submitPlan(1, planOn(1, "two"))
	if s := h.c.Stats(); len(s.Runs) != 1 || s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
	runStage(a)
	runStage(a)
	for _, id := range []string{first, second} {
		if end := h.end(id); !end.GetComplete() {
			t.Errorf("%v", end)
		}
	}
	_ = b
}

// A run is given the agents that connect or are uncordoned later, up to its number, and says who has the others.
func TestAgentsThatComeLater(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	first := h.submitPlan(1, planOn(1, "one"))
	second := h.submitPlan(1, planOn(1, "two")) // waits for a
	if s := h.c.Stats(); len(s.Runs) != 1 {
		t.Errorf("%+v", s)
	}
	b := h.agent("b")
	runStage(a)
	runStage(b)
	for _, id := range []string{first, second} {
		if end := h.end(id); !end.GetComplete() {
			t.Errorf("%v", end)
		}
	}
	if got := agentsIn(t, h.fetch(second)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("agents of the second run: %v", got)
	}
}

// A coordinator that is killed with two runs in progress and one that waits resumes all of them, each with its agents.
func TestSeveralRunsGoOn(t *testing.T) {
	for at, killed := 1, true; killed; at += 2 {
		killed = false
		t.Run(fmt.Sprint("step ", at), func(t *testing.T) { killed = severalKilled(t, at) })
	}
}

func severalKilled(t *testing.T, at int) (killed bool) {
	p := newPlay(t, "")
	p.atStep(at, func() {})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var acting sync.WaitGroup
	for _, a := range p.agents {
		acting.Go(func() { a.act(ctx) })
	}
	var ids []string
	for _, server := range []string{"one", "two", "one"} {
		answer, err := p.rig.runs.SubmitRun(ctx,
			&spatev1.SubmitRunRequest{PlanYaml: []byte(planOn(1, server)), MinAgents: 1})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, answer.GetRunId())
	}
	done := make(chan error)
	for _, id := range ids {
		go func() {
			events, err := p.rig.followAll(ctx, id)
			if end := events[max(0, len(events)-1)].GetRunEnded(); err == nil && !end.GetComplete() {
				err = fmt.Errorf("run %s: %v", id, end)
			}
			done <- err
		}()
	}
	left := len(ids)
	take := func(err error) {
		if left--; err != nil {
			t.Error(err)
		}
	}
	for !killed && left > 0 {
		select {
		case <-p.reached:
			killed = true
			p.rig.crash()
			p.rig.start()
		case err := <-done:
			take(err)
		}
	}
	for left > 0 {
		take(<-done)
	}
	cancel()
	acting.Wait()
	sent := 0
	for _, a := range p.agents {
		sent += a.sent
	}
	for _, id := range ids {
		l, err := ledger.OpenReadOnly(filepath.Join(p.rig.cfg.DataDir, id, ledger.File))
		if err != nil {
			t.Fatal(err)
		}
		if got := agentsIn(t, l); len(got) != 1 {
			t.Errorf("run %s has the agents %v", id, got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if sent != 2*len(ids) {
		t.Errorf("%d requests, want two for each run", sent)
	}
	return killed
}

// Runs wait by priority and then by time, also after a restart. A list says what each waits for, and about how long.
func TestPriority(t *testing.T) {
	r := newRig(t)
	submit := func(priority int32) string {
		text := strings.Replace(planOn(1, "one"), "{concurrency: [1], requests: 4}", "{rate: [1], duration: 60s}", 1)
		answer, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{
			PlanYaml: []byte(text), MinAgents: 1, Priority: priority,
		})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetRunId()
	}
	first, low, high, second := submit(0), submit(-1), submit(5), submit(5)
	check := func(when string) {
		t.Helper()
		_, all := list(t, r.runs, 0)
		var got []string
		for _, s := range all {
			got = append(got, s.GetRunId())
		}
		if want := []string{low, second, high, first}; !slices.Equal(got, want) {
			t.Fatalf("%s: runs %v, want %v", when, got, want)
		}
		for i, wait := range []time.Duration{180 * time.Second, 120 * time.Second, 60 * time.Second} {
			s := all[i]
			if s.GetPlace() != uint32(3-i) || s.GetWait().AsDuration() != wait ||
				!strings.HasPrefix(s.GetWaitsBecause(), "the same server is loaded by run "+s.GetWaitsFor()[0]) {
				t.Errorf("%s: %v, want it to wait %v", when, s, wait)
			}
		}
		if s := all[2]; !slices.Equal(s.GetWaitsFor(), []string{first}) || s.GetPriority() != 5 {
			t.Errorf("%s: the next run: %v", when, s)
		}
	}
	check("at first")
	r.crash()
	r.start()
	check("after a restart")
	if _, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless),
		Priority: 101}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("priority 101: %v", err)
	}
}

// A run waits while it would load a target beyond the limit of all runs together, and says so.
func TestLimitOfARunningTarget(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.yaml")
	limits := "default: operator\nlimits: [{hosts: ['*.lab'], max_streams: 3}]\n"
	if err := os.WriteFile(path, []byte(limits), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := access.Open(path, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, func(c *Config) { c.Access = file })
	a := h.agent("a")
	h.agent("b")
	plan := func(server string) string {
		return strings.Replace(planOn(1, server), "concurrency: [1]", "concurrency: [2]", 1)
	}
	first, second := h.submitPlan(1, plan("one.lab")), h.submitPlan(1, plan("two.lab"))
	other := h.submitPlan(1, plan("elsewhere"))
	if s := h.c.Stats(); !slices.Equal(s.Runs, []string{first, other}) {
		t.Errorf("in progress are %v, want %v and %v", s.Runs, first, other)
	}
	_, all := list(t, h.runs, 0)
	if s := all[0]; s.GetRunId() != second || !slices.Equal(s.GetWaitsFor(), []string{first}) ||
		!strings.Contains(s.GetWaitsBecause(), "runs in progress have 2, and max_streams is 3") || s.GetWait() != nil {
		t.Errorf("the run that waits: %v", s)
	}
	runStage(a)
	if end := h.end(first); !end.GetComplete() {
		t.Errorf("the first: %v", end)
	}
	runStage(a)
	if end := h.end(second); !end.GetComplete() {
		t.Errorf("the second: %v", end)
	}
}
