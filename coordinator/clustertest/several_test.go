package clustertest_test

import (
	"slices"
	"testing"

	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/clustertest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Runs are in progress at once, each with its agents. The stop of one, and what its agent sends, do not touch the
// other. A run that loads the server of another waits for it, although an agent is free.
func TestSeveralRunsAtOnce(t *testing.T) {
	h := start(t)
	a, b, c, d := h.Agent("a"), h.Agent("b"), h.Agent("c"), h.Agent("d")
	first, second := h.SubmitPlan(1, clustertest.PlanOn(2, "one")), h.SubmitPlan(1, clustertest.PlanOn(1, "two"))
	third := h.SubmitPlan(1, clustertest.PlanOn(1, "ONE:80"))
	if s := h.c.Stats(); !slices.Equal(s.Runs, []string{first, second}) || s.Waiting != 1 || s.Agents["busy"] != 3 {
		t.Fatalf("%+v", s)
	}
	for _, x := range []*clustertest.Agent{a, b, c} {
		x.Apply()
	}
	for _, x := range []*clustertest.Agent{a, b, c} {
		x.Armed()
	}
	foreign := c.Snapshot(0)
	foreign.Key.RunId = first
	if m := c.Deliver(foreign); m.GetRefused() == "" {
		t.Error("a snapshot of another run's agent is taken")
	}
	if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: second}); err != nil {
		t.Fatal(err)
	}
	c.Stopped()
	c.Sequence-- // of the refused one
	stopped := c.Last(0)
	stopped.Totals.Stopped = true
	c.Acked(stopped)
	if end := h.End(second); end.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED {
		t.Errorf("the run that was stopped: %v", end)
	}
	for _, x := range []*clustertest.Agent{a, b} {
		x.Acked(x.Snapshot(0))
		x.Acked(x.Last(1))
	}
	if end := h.End(first); !end.GetComplete() {
		t.Errorf("the other run: %v", end)
	}
	clustertest.RunStage(a)
	if end := h.End(third); !end.GetComplete() {
		t.Errorf("the run that waited: %v", end)
	}
	for id, want := range map[string][]string{first: {"a", "b"}, second: {"c"}, third: {"a"}} {
		if got := clustertest.AgentsIn(t, h.Fetch(id)); !slices.Equal(got, want) {
			t.Errorf("agents of %s: %v, want %v", id, got, want)
		}
	}
	d.Say(clustertest.Heartbeat(1)) // it never heard of a run
	if m := d.Hear(); m.GetRenewed() == nil {
		t.Errorf("the agent that belonged to no run hears %v", m)
	}
}

// With a limit of one run, runs follow one another.
func TestAtMostSoManyRuns(t *testing.T) {
	h := start(t, func(c *coordinator.Config) { c.MaxRuns = 1 })
	a, b := h.Agent("a"), h.Agent("b")
	first, second := h.SubmitPlan(1, clustertest.PlanOn(1, "one")), h.SubmitPlan(1, clustertest.PlanOn(1, "two"))
	if s := h.c.Stats(); len(s.Runs) != 1 || s.Waiting != 1 {
		t.Errorf("%+v", s)
	}
	clustertest.RunStage(a)
	clustertest.RunStage(a)
	for _, id := range []string{first, second} {
		if end := h.End(id); !end.GetComplete() {
			t.Errorf("%v", end)
		}
	}
	_ = b
}

// A run is given the agents that connect or are uncordoned later, up to its number, and says who has the others.
func TestAgentsThatComeLater(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	first := h.SubmitPlan(1, clustertest.PlanOn(1, "one"))
	second := h.SubmitPlan(1, clustertest.PlanOn(1, "two")) // waits for a
	if s := h.c.Stats(); len(s.Runs) != 1 {
		t.Errorf("%+v", s)
	}
	b := h.Agent("b")
	clustertest.RunStage(a)
	clustertest.RunStage(b)
	for _, id := range []string{first, second} {
		if end := h.End(id); !end.GetComplete() {
			t.Errorf("%v", end)
		}
	}
	if got := clustertest.AgentsIn(t, h.Fetch(second)); !slices.Equal(got, []string{"b"}) {
		t.Errorf("agents of the second run: %v", got)
	}
}
