package lifecycle

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Each source has exactly one reader, whatever agents joined or were lost since. Newcomers read no sources, and
// sources are spread evenly.
func TestEachSourceHasOneReader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sources := rapid.IntRange(0, 70).Draw(t, "endpoints")
		target := &spatev1.Target{Endpoints: make([]string, sources), ServerMetrics: &spatev1.ServerMetrics{}}
		s := &stage{record: &spatev1.StageRecord{Stage: &spatev1.Stage{Target: target}}}
		for range rapid.IntRange(1, 9).Draw(t, "agents") {
			s.assignments = append(s.assignments, &assignment{rank: uint32(len(s.assignments))})
		}
		for range rapid.IntRange(0, 3).Draw(t, "others") {
			s.assignments = append(s.assignments, &assignment{joined: 1, rank: uint32(len(s.assignments))})
		}
		s.assignments[0].failure = "lost"
		var all []uint32
		least, most := sources, 0
		for _, p := range s.assignments {
			of := s.serverSources(p)
			all = append(all, of...)
			if p.joined > 0 {
				if len(of) > 0 {
					t.Fatalf("%v for one who was not there", of)
				}
				continue
			}
			least, most = min(least, len(of)), max(most, len(of))
		}
		slices.Sort(all)
		if len(all) != min(sources, 64) || len(slices.Compact(all)) != len(all) || most-least > 1 {
			t.Fatalf("%v, from %d to %d each", all, least, most)
		}
		if of := s.serverSources(&assignment{rank: uint32(len(s.assignments))}); of != nil {
			t.Fatalf("%v for a newcomer", of)
		}
	})
}

// An agent may join the open loop that an agent leaves, whatever the policy, until all handovers together are too long
// to be told to all agents.
func TestWhatMayJoin(t *testing.T) {
	for _, policy := range []string{"fail", "degrade", reassign} {
		p := &assignment{agent: &agent{}}
		st := &spatev1.Stage{Load: &spatev1.LoadPoint{Rate: 1}, OnAgentLoss: policy}
		record := &spatev1.StageRecord{Stage: st}
		r := &Run{phase: running, stage: &stage{record: record, assignments: []*assignment{p}}}
		if may := r.mayJoin(st); may != (policy == reassign) {
			t.Errorf("%s: %v while no agent leaves", policy, may)
		}
		p.left = new(int64)
		if !r.mayJoin(st) {
			t.Errorf("%s: not while an agent leaves", policy)
		}
		for range 1024 {
			record.Handovers = append(record.Handovers, &spatev1.Handover{Weights: make([]uint32, 1024)})
		}
		if !r.mayJoin(st) {
			t.Errorf("%s: not with %d weights", policy, mostWeights)
		}
		if record.Handovers = append(record.Handovers, &spatev1.Handover{Weights: []uint32{1}}); r.mayJoin(st) {
			t.Errorf("%s: with more than %d weights", policy, mostWeights)
		}
	}
}

func TestValuesAreReadOnlyOnRequest(t *testing.T) {
	p := &assignment{}
	s := &stage{record: &spatev1.StageRecord{Stage: &spatev1.Stage{Target: &spatev1.Target{
		Endpoints: []string{"http://e"}, ServerMetrics: &spatev1.ServerMetrics{Read: "never"},
	}}}, assignments: []*assignment{p}}
	if of := s.serverSources(p); of != nil {
		t.Errorf("%v", of)
	}
}

// An agent is told that the load of all has ended when each other agent has delivered its totals, was dropped, or
// waits too.
func TestLoadEnded(t *testing.T) {
	ref := &spatev1.AssignmentRef{RunId: "r", StageIndex: 1, Revision: 1}
	whole := func(p *assignment) { p.totals, p.snapshots = &spatev1.Totals{Snapshots: 1}, 1 }
	for name, c := range map[string]struct {
		other func(*assignment)
		ref   *spatev1.AssignmentRef
		phase phase
		want  bool
	}{
		"the other continues": {func(*assignment) {}, ref, running, false},
		"the other has ended": {whole, ref, running, true},
		"it has ended, not all came": {func(p *assignment) { p.totals = &spatev1.Totals{Snapshots: 2} }, ref,
			running, false},
		"the other waits":             {func(p *assignment) { p.ended = true }, ref, running, true},
		"the other was dropped":       {func(p *assignment) { p.failure = "lost" }, ref, running, true},
		"the other is lost":           {func(p *assignment) { p.lost = "silent" }, ref, running, false},
		"the stage is being stopped":  {whole, ref, stopping, true},
		"another stage":               {whole, &spatev1.AssignmentRef{RunId: "r"}, running, false},
		"a stage that has ended":      {whole, ref, closing, false},
		"an older revision's message": {whole, &spatev1.AssignmentRef{RunId: "r", StageIndex: 1}, running, true},
	} {
		a := &agent{info: &spatev1.AgentInfo{Name: "a"}}
		b := &agent{info: &spatev1.AgentInfo{Name: "b"}}
		p, q := &assignment{agent: a}, &assignment{agent: b, rank: 1}
		c.other(q)
		r := &Run{phase: c.phase, agents: map[string]*agent{"a": a, "b": b},
			stage: &stage{ref: ref, record: &spatev1.StageRecord{}, assignments: []*assignment{p, q}}}
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
		ref: ref, assignments: []*assignment{{agent: a, knows: 1}, {agent: b, rank: 1}},
		record: &spatev1.StageRecord{Handovers: []*spatev1.Handover{{FromRank: 2, Weights: []uint32{1}, Revision: 2}}},
	}}
	if !r.LoadEnded("a", ref) {
		t.Error("it is to wait")
	}
	if r.LoadEnded("unknown", ref) {
		t.Error("an agent without an assignment")
	}
}

// The first missing window, compared with a set.
func TestCoverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c coverage
		have := map[uint32]bool{}
		for range rapid.IntRange(0, 20).Draw(t, "snapshots") {
			first := uint32(rapid.IntRange(0, 30).Draw(t, "first"))
			last := first + uint32(rapid.IntRange(0, 4).Draw(t, "more"))
			c.add(first, last)
			for w := first; w <= last; w++ {
				have[w] = true
			}
		}
		want := uint32(0)
		for have[want] {
			want++
		}
		if c.next != want {
			t.Fatalf("next is %d, want %d of %v", c.next, want, have)
		}
	})
}

// Parts sum up to 1, whatever changes hands.
func TestPartsSumUpToAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 5).Draw(t, "places")
		s := &stage{record: &spatev1.StageRecord{}}
		for i := range n {
			s.assignments = append(
				s.assignments,
				&assignment{rank: uint32(i), weight: uint32(rapid.IntRange(1, 9).Draw(t, "weight"))},
			)
		}
		for range rapid.IntRange(0, 6).Draw(t, "handovers") {
			h := &spatev1.Handover{FromRank: uint32(rapid.IntRange(0, n-1).Draw(t, "from"))}
			for range n {
				h.Weights = append(h.Weights, uint32(rapid.IntRange(1, 3).Draw(t, "to")))
			}
			s.record.Handovers = append(s.record.Handovers, h)
		}
		sum := 0.0
		for _, p := range s.assignments {
			sum += s.part(p)
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("the parts sum up to %v", sum)
		}
	})
}

// The loss of an assignment names each second with requests that were due and never sent: the seconds from the first
// such request on, and then the seconds that are missing entirely. It names no second before the first such request.
func TestALossNamesTheSecondsOfWhatWasNeverSent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plan := &spatev1.Stage{
			Target: &spatev1.Target{Name: "east"}, Load: &spatev1.LoadPoint{Rate: 10, Arrival: "poisson"},
			OnAgentLoss: degrade,
		}
		r := New(Config{}, "r", []*spatev1.Stage{plan}, 1, time.Unix(0, 0))
		for _, name := range []string{"a", "b"} {
			r.Connected(1, &spatev1.AgentInfo{Name: name}, 1, nil, false)
		}
		r.Tick(1)
		for _, name := range []string{"a", "b"} {
			r.Applied(1, name, &spatev1.Applied{Ref: r.stage.ref})
		}
		delivered := rapid.Uint32Range(1, 40).Draw(t, "windows delivered")
		totals := &spatev1.Totals{
			Snapshots: uint64(delivered), Failure: "its lease has ended",
			FailureKind: spatev1.FailureKind_FAILURE_KIND_AGENT,
			NeverSent:   rapid.Uint64Range(0, 3).Draw(t, "never sent"),
		}
		if rapid.Bool().Draw(t, "known") {
			totals.UnsentFromNs = new(rapid.Int64Range(-1, 50e9).Draw(t, "unsent from"))
		}
		for window := range delivered {
			key := &spatev1.SnapshotKey{RunId: "r", Agent: "b", Incarnation: 1, Sequence: uint64(window) + 1}
			s := &spatev1.Snapshot{Key: key, Window: window, Revision: 1}
			if window == delivered-1 {
				s.Totals = totals
			}
			r.Merged(clock.Instant(window)*1e9, s)
		}
		loss := r.stage.snapshot().GetAgents()[1].GetLoss()
		if loss == nil || loss.GetFromWindow() != delivered {
			t.Fatalf("lost %v, want all from window %d on", loss, delivered)
		}
		first := delivered // first second that the loss names
		if loss.UnsentFromWindow != nil {
			first = loss.GetUnsentFromWindow()
		}
		want := delivered
		if due := totals.GetUnsentFromNs(); totals.UnsentFromNs != nil && due >= 0 {
			want = min(uint32(due/1e9), delivered)
		}
		if first != want {
			t.Fatalf("something is missing from second %d on, by the loss from %d on", want, first)
		}
	})
}
