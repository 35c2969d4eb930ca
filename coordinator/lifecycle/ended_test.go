package lifecycle

import (
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// An agent is told that the load of all has ended when each other agent has delivered its totals, was given up, or
// waits too.
func TestLoadEnded(t *testing.T) {
	ref := &spatev1.AssignmentRef{RunId: "r", StageIndex: 1, Revision: 1}
	whole := func(p *share) { p.totals, p.snapshots = &spatev1.Totals{Snapshots: 1}, 1 }
	for name, c := range map[string]struct {
		other func(*share)
		ref   *spatev1.AssignmentRef
		phase phase
		want  bool
	}{
		"the other goes on":   {func(*share) {}, ref, running, false},
		"the other has ended": {whole, ref, running, true},
		"it has ended, not all came": {func(p *share) { p.totals = &spatev1.Totals{Snapshots: 2} }, ref,
			running, false},
		"the other waits":             {func(p *share) { p.ended = true }, ref, running, true},
		"the other was given up":      {func(p *share) { p.failure = "lost" }, ref, running, true},
		"the other is away":           {func(p *share) { p.lost = "silent" }, ref, running, false},
		"the other observes":          {func(p *share) { p.observer = true }, ref, running, true},
		"the stage is being stopped":  {whole, ref, stopping, true},
		"another stage":               {whole, &spatev1.AssignmentRef{RunId: "r"}, running, false},
		"a stage that has ended":      {whole, ref, closing, false},
		"an older revision's message": {whole, &spatev1.AssignmentRef{RunId: "r", StageIndex: 1}, running, true},
	} {
		a := &agent{info: &spatev1.AgentInfo{Name: "a"}}
		b := &agent{info: &spatev1.AgentInfo{Name: "b"}}
		p, q := &share{agent: a}, &share{agent: b, rank: 1}
		c.other(q)
		r := &Run{phase: c.phase, agents: map[string]*agent{"a": a, "b": b},
			stage: &stage{ref: ref, record: &spatev1.StageRecord{}, shares: []*share{p, q}}}
		if got := r.LoadEnded("a", c.ref); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
		if p.active() == (c.phase != closing && c.ref.GetStageIndex() == 1) {
			t.Errorf("%s: active %v", name, p.active())
		}
	}
}

// An agent that was given something it never applied must end at once, so that others get that part.
func TestLoadEndedOfOneThatOwes(t *testing.T) {
	a, b := &agent{info: &spatev1.AgentInfo{Name: "a"}}, &agent{info: &spatev1.AgentInfo{Name: "b"}}
	ref := &spatev1.AssignmentRef{RunId: "r", Revision: 2}
	r := &Run{phase: running, agents: map[string]*agent{"a": a, "b": b}, stage: &stage{
		ref: ref, shares: []*share{{agent: a, knows: 1}, {agent: b, rank: 1}},
		record: &spatev1.StageRecord{Handovers: []*spatev1.Handover{{FromRank: 2, Weights: []uint32{1}, Revision: 2}}},
	}}
	if !r.LoadEnded("a", ref) {
		t.Error("it is to wait")
	}
	if r.LoadEnded("nobody", ref) {
		t.Error("an agent without a share")
	}
}
