package lifecycle_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// belonging is a run of one or more stages, whose agents a test gives.
type belonging struct {
	t   *testing.T
	run *lifecycle.Run
	at  clock.Instant
}

func newBelonging(t *testing.T, count uint32, regions map[string]float64, stages ...*spatev1.Stage) *belonging {
	t.Helper()
	for i, st := range stages {
		st.Index, st.Agents, st.Regions = uint32(i), &spatev1.AgentSelector{Count: count}, regions
		st.Target, st.Workload = &spatev1.Target{Name: "t"}, &spatev1.Workload{Name: "w"}
	}
	b := &belonging{t: t, at: clock.Instant(time.Hour)}
	b.run = lifecycle.New(lifecycle.Config{}, "r", stages, b.at, time.Unix(0, 0))
	return b
}

// rated returns a stage of an open loop.
func rated(seconds int) *spatev1.Stage {
	return &spatev1.Stage{OnAgentLoss: "reassign", Load: &spatev1.LoadPoint{Rate: 5, Arrival: "constant",
		Duration: durationpb.New(time.Duration(seconds) * time.Second)}}
}

// info reads an agent: "a@eu".
func info(text string) *spatev1.AgentInfo {
	name, region, _ := strings.Cut(text, "@")
	return &spatev1.AgentInfo{Name: name, Region: region, Weight: 1}
}

// give connects agents.
func (b *belonging) give(texts ...string) {
	for _, text := range texts {
		b.run.Connected(b.at, info(text), 1, nil, false)
	}
	b.run.Tick(b.at)
	b.run.Effects()
}

// start lets agents of the stage in progress answer that they are ready, and lets time pass from its start on.
func (b *belonging) start(d time.Duration, names ...string) {
	for _, name := range names {
		ref := &spatev1.AssignmentRef{RunId: "r", Revision: 1}
		b.run.Applied(b.at, name, &spatev1.Applied{Ref: ref, ClockUncertaintyNs: 1})
	}
	b.run.Effects()
	b.pass(200*time.Millisecond+d, names...)
}

// pass lets time pass in which agents are heard.
func (b *belonging) pass(d time.Duration, names ...string) {
	b.at = b.at.Add(d)
	for _, name := range names {
		b.run.Heard(b.at, name, &spatev1.Heartbeat{})
	}
	b.run.Tick(b.at)
	b.run.Effects()
}

// needs fails the test unless the run needs these agents only.
func (b *belonging) needs(when string, want ...string) {
	b.t.Helper()
	if got := slices.Sorted(maps.Keys(b.run.Needs(b.at))); !slices.Equal(got, want) {
		b.t.Errorf("%s the run needs %v, want %v", when, got, want)
	}
}

// wants fails the test unless the run wants an agent, or not.
func (b *belonging) wants(when, agent string, want bool) {
	b.t.Helper()
	if got := b.run.Wants(b.at, info(agent)); got != want {
		b.t.Errorf("%s the run wants %s: %v, want %v", when, agent, got, want)
	}
}

// A run without a count wants and keeps all agents of its regions.
func TestARunWithoutACountTakesAll(t *testing.T) {
	b := newBelonging(t, 0, map[string]float64{"eu": 1, "us": 1}, rated(60))
	b.wants("at first", "a@eu", true)
	b.wants("at first", "x@asia", false)
	b.give("a@eu", "b@us")
	b.start(time.Second, "a", "b")
	b.wants("in its stage", "c@us", true)
	b.give("c@us")
	b.needs("in its stage", "a", "b", "c")
	b.run.Stop(b.at, true)
	b.wants("once it is stopped", "d@eu", false)
}

// A run with a count takes no more than these, except one of a region that has none, until the surplus is known. It
// wants another one when one is lost, and keeps the name of a lost one until the next stage.
func TestARunWithACountTakesSoMany(t *testing.T) {
	b := newBelonging(t, 2, map[string]float64{"eu": 1, "us": 1}, rated(60))
	b.give("a@eu", "b@eu")
	b.wants("with all of one region", "c@eu", false)
	b.wants("with all of one region", "d@us", true)
	b.needs("while it waits", "a", "b")
	b.give("d@us")
	b.needs("once it has begun", "a", "d")
	b.run.Disconnected(b.at, "b", 1, "given to another run")
	b.start(time.Second, "a", "d")
	b.wants("with all", "c@eu", false)
	for range 5 {
		b.pass(900*time.Millisecond, "a") // d is silent
	}
	b.wants("with one lost", "c@eu", true)
	b.give("c@eu", "e@eu")
	b.needs("with one lost", "a", "c", "d")
}

// An agent that is drained is not needed once the next stage has begun without it.
func TestADrainedAgentIsNotNeeded(t *testing.T) {
	b := newBelonging(t, 0, nil, &spatev1.Stage{Load: &spatev1.LoadPoint{Concurrency: 2, Requests: 4}},
		&spatev1.Stage{Load: &spatev1.LoadPoint{Concurrency: 2, Requests: 4}})
	b.give("a", "b")
	b.run.Cordon(b.at, "b", spatev1.Cordon_CORDON_DRAINED)
	b.run.Effects()
	b.needs("before its stage has ended", "a")
}

// An agent that was drained, and takes runs again when the coordinator is restarted, takes part from the next stage on,
// as it would have without the restart. One that is still drained does not.
func TestUncordonedBeforeARestart(t *testing.T) {
	for _, drained := range []bool{false, true} {
		b := &belonging{t: t, at: clock.Instant(time.Hour)}
		plan := []*spatev1.Stage{rated(60), rated(60)}
		for i, st := range plan {
			st.Index, st.Target, st.Workload = uint32(i), &spatev1.Target{Name: "t"}, &spatev1.Workload{Name: "w"}
		}
		plan[1].Pause = durationpb.New(time.Second)
		run, err := lifecycle.Restore(lifecycle.Config{}, "r", lifecycle.Memory{
			Submission: &spatev1.Submission{Plan: plan},
			Checkpoint: &spatev1.Checkpoint{
				Phase: "pausing", Roster: []*spatev1.AgentInfo{info("a"), info("b")}, Incarnations: []uint64{1, 1},
				Next: 2, Begun: 1, Leaving: []string{"b"}, Pending: plan[1],
			},
		}, b.at, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		b.run = run
		if drained {
			b.run.Cordon(b.at, "b", spatev1.Cordon_CORDON_DRAINED)
		}
		b.give("a", "b")
		b.at = b.at.Add(900 * time.Millisecond)
		b.run.Tick(b.at)
		b.at = b.at.Add(200 * time.Millisecond)
		b.run.Tick(b.at)
		assigned := map[string]bool{}
		for _, e := range b.run.Effects() {
			if send, ok := e.(lifecycle.Send); ok && send.Message.GetAssign() != nil {
				assigned[send.Agent] = true
			}
		}
		if !assigned["a"] || assigned["b"] == drained {
			t.Errorf("drained %v: assigned to %v", drained, assigned)
		}
	}
}
