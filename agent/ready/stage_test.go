package ready

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// resourcesIn returns the kit of an agent with a directory for datasets.
func resourcesIn(dir string) *Resources {
	k := resourcesOf(Limits{})
	k.Datasets.Dir = dir
	return k
}

func TestRejectedDatasets(t *testing.T) {
	e := enginetest.New(t, 0, 0)
	for name, c := range map[string]struct {
		change func(*spatev1.Stage, *Resources)
		want   string
	}{
		"no directory": {func(_ *spatev1.Stage, k *Resources) { k.Datasets.Dir = "" }, "no directory for datasets"},
		"another length": {func(s *spatev1.Stage, _ *Resources) { s.Dataset.Rows++ },
			"has 5 rows, but the stage was made for 6"},
		"another size": {func(s *spatev1.Stage, _ *Resources) { s.Dataset.Size++ }, "bytes instead of"},
		"no rows":      {func(s *spatev1.Stage, _ *Resources) { s.Dataset = nil }, "trace has no rows"},
		"replay of words": {func(s *spatev1.Stage, _ *Resources) {
			s.Dataset, s.Workload = nil, enginetest.StageOf(nil, e).Workload
		}, "a replay needs a workload with a trace, but 4:2 has no rows"},
	} {
		t.Run(name, func(t *testing.T) {
			stage, dir := enginetest.TraceStage(t, 5, 1, e)
			k := resourcesIn(dir)
			c.change(stage, k)
			s, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, k)
			if err == nil {
				s.Close()
				t.Fatal("taken on")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q does not say %q", err, c.want)
			}
		})
	}
}

func TestRequestsLongerThanTheModelTakes(t *testing.T) {
	for most, fits := range map[int]bool{5: false, 6: true, 0: true} {
		e := enginetest.New(t, 0, 0)
		e.MaxModelTokens = most
		s, err := Prepare(
			t.Context(),
			enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 1}, e), 0),
			nil, resourcesOf(Limits{}),
		)
		switch {
		case err == nil:
			s.Close()
		case !strings.Contains(err.Error(), "has 6 tokens") || !strings.Contains(err.Error(), "accepts at most 5"):
			t.Errorf("%v", err)
		}
		if (err == nil) != fits {
			t.Errorf("a limit of %d tokens: %v", most, err)
		}
	}
	e := enginetest.New(t, 0, 0)
	e.MaxModelTokens = 7
	stage, dir := enginetest.TraceStage(t, 5, 1, e)
	if _, err := Prepare(t.Context(), enginetest.AssignOf(stage, 0), nil, resourcesIn(dir)); err == nil ||
		!strings.Contains(err.Error(), "has 8 tokens") {
		t.Errorf("trace: %v", err)
	}
}

func TestStageBeyondTheCapacity(t *testing.T) {
	server := enginetest.New(t, 0, 0)
	capacity := &spatev1.Capacity{Streams: 4, FramesPerSecond: 100, StartsPerSecond: 50}
	for name, c := range map[string]struct {
		load     *spatev1.LoadPoint
		capacity *spatev1.Capacity
		want     string
	}{
		"streams": {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, capacity,
			"The machine of agent a was exact up to 4 streams when it was calibrated, and this stage gives it 5: " +
				"its times may be less exact; add agents."},
		"as many streams": {&spatev1.LoadPoint{Concurrency: 4, Requests: 5}, capacity, ""},
		"starts": {&spatev1.LoadPoint{Rate: 51, Arrival: "constant", Requests: 5}, capacity,
			"up to 50 starts/s when it was calibrated, and this stage gives it up to 51"},
		"as many starts": {&spatev1.LoadPoint{Rate: 50, Arrival: "constant", Requests: 5}, capacity, ""},
		"not calibrated": {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, nil, ""},
		"streams not measured": {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, &spatev1.Capacity{StartsPerSecond: 1},
			""},
	} {
		k := resourcesOf(Limits{})
		k.Name, k.Capacity = "a", c.capacity
		for range 2 { // the second gets the first one's findings, without its note
			s, err := Prepare(t.Context(), enginetest.AssignOf(enginetest.StageOf(c.load, server), 0), nil, k)
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			notes := strings.Join(s.Preparation.GetNotes(), "\n")
			if n := strings.Count(notes, "was exact"); n != strings.Count(c.want, "was exact") && n > 1 ||
				!strings.Contains(notes, c.want) || c.want == "" && n > 0 {
				t.Errorf("%s: notes %q, want %q", name, notes, c.want)
			}
		}
	}
}

// Prompts in flight that this machine's memory cannot hold are refused; where the plan sets no limit, fewer are held.
func TestPromptsInFlight(t *testing.T) {
	server := enginetest.New(t, 0, 0)
	each := uint64(4 * bytesPerToken)
	for name, c := range map[string]struct {
		load            *spatev1.LoadPoint
		memory          uint64
		agents, streams int
		refused         string
	}{
		"they fit":   {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, 5 * each, 1, 0, ""},
		"unknown":    {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, 0, 1, 0, ""},
		"too many":   {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, 5*each - 1, 1, 0, "up to 5 requests in flight, and"},
		"two agents": {&spatev1.LoadPoint{Concurrency: 5, Requests: 5}, 9 * each, 2, 0, "each of 1 other agents"},
		"held back": {&spatev1.LoadPoint{Rate: 50, Arrival: "constant", Requests: 5, MaxInFlight: 7}, 6 * each, 1, 7,
			"up to 7 requests"},
		"no limit": {&spatev1.LoadPoint{Rate: 50, Arrival: "constant", Requests: 5}, 6 * each, 1, 6, ""},
	} {
		s, err := Prepare(t.Context(), enginetest.AssignOf(enginetest.StageOf(c.load, server), 0), nil,
			resourcesOf(Limits{AgentsInProcess: c.agents}))
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		err = s.checkMemory(c.memory)
		if (err != nil) != (c.refused != "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v", name, err)
		}
		if s.MaxStreams != c.streams {
			t.Errorf("%s: %d streams, want %d", name, s.MaxStreams, c.streams)
		}
	}
}

func TestVaries(t *testing.T) {
	for _, c := range []struct {
		phases []*spatev1.Phase
		want   bool
	}{
		{nil, false},
		{[]*spatev1.Phase{{From: 2}, {From: 2}}, false},
		{[]*spatev1.Phase{phase(2, 2, time.Millisecond), {From: 2}}, false},
		{[]*spatev1.Phase{{From: 2}, {From: 3}}, true},
		{[]*spatev1.Phase{phase(2, 0, time.Millisecond)}, true},
	} {
		if got := varies(&spatev1.LoadPoint{Phases: c.phases}); got != c.want {
			t.Errorf("%v: %t", c.phases, got)
		}
	}
}

// phase returns a phase of a load.
func phase(from, to float64, d time.Duration) *spatev1.Phase {
	return &spatev1.Phase{From: from, To: &to, Duration: durationpb.New(d)}
}
