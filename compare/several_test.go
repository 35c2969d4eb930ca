package compare

import (
	"math"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
)

// costing returns a side with its own ID, whose only target has GPUs and costs.
func costing(name string, gpus uint32, stages ...results.StageResult) Side {
	s := sideOf(name, stages...)
	s.Runs[0].Result.Run.ID = name
	for i := range stages {
		stages[i].OutputTokenThroughput = new(1000 / stages[i].TTFT.Mean)
	}
	s.Runs[0].Result.Run.Targets = []results.RunTarget{{Name: stages[0].Target, GPUs: &gpus,
		CostPerHour: new(float64(gpus)), Hardware: new("H100"), Baseline: true}}
	return s
}

// tool returns a side that is a file of another tool, with a test at a concurrency of requests with some output tokens.
func tool(name string, concurrency uint32, osl float64, numbers map[string]float64) Side {
	s, known := results.StageResult{Target: name, Complete: true}, map[string]*float64{}
	for metric, v := range numbers {
		known[metric] = &v
	}
	s.OSL.Seen = &histogram.Summary{Mean: osl}
	if concurrency > 0 {
		s.Load = results.Load{Words: "at its load", Concurrency: &concurrency}
	}
	return Side{Name: "dir/" + name + ".json", Runs: []*Run{{Name: name + ".json", Tool: name,
		Result: &results.Result{Stages: []results.StageResult{s}}, Numbers: map[uint32]map[string]*float64{0: known}}}}
}

// Several runs are compared with one baseline, whatever their targets are called; each row says what it is.
func TestSeveralRuns(t *testing.T) {
	c, err := Of([]Side{costing("runs/1", 1, stageOf("base", "1", 10)), costing("runs/2", 1, stageOf("fast", "1", 5)),
		costing("runs/3", 2, stageOf("large", "1", 4)), costing("runs/4", 1, stageOf("other", "2", 4))}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if c.Baseline != "base" || c.Sides[0].Name != "fast" || c.Rows[2] != "large: runs/3" || c.Sides[0].Stages[0].Target != "" || c.Sides[2].Unmatched[0].Stage != "1" &&
		c.Sides[2].Unmatched[0].Stage != "w, 1" {
		t.Errorf("%+v", c)
	}
	for side, want := range map[int]map[string]float64{0: {"output_token_throughput": 1, "output_tokens_per_gpu": 1, "output_tokens_per_dollar": 1},
		1: {"output_token_throughput": 1.5, "output_tokens_per_gpu": 0.25, "output_tokens_per_dollar": 0.25}} {
		for name, change := range want {
			d := metric(t, &c.Sides[side].Stages[0], name)
			if math.Abs(*d.Change-change) > 1e-9 || d.Outcome != Untested {
				t.Errorf("side %d: %s: %+v, want %v", side, name, d, change)
			}
		}
	}
}

// The targets of runs become rows if their names differ, the plan's baseline first; runs with the same ones stay whole.
func TestTargetsOfSeveralRuns(t *testing.T) {
	a := costing("a", 1, stageOf("x", "1", 10), stageOf("y", "1", 8))
	a.Runs[0].Result.Run.Targets = []results.RunTarget{{Name: "x"}, {Name: "y", Baseline: true}}
	c, err := Of([]Side{a, costing("b", 1, stageOf("z", "1", 4)), costing("c", 1, stageOf("z", "1", 16))}, Options{})
	if err != nil || c.Baseline != "a (y)" || len(c.Sides) != 3 || *metric(t, &c.Sides[1].Stages[0], "ttft_ms.mean").Change != -0.5 {
		t.Errorf("%+v, %v", c, err)
	}
	two := func(name string) Side { return costing(name, 1, stageOf("x", "1", 10), stageOf("y", "1", 8)) }
	c, err = Of([]Side{two("a"), two("b"), two("c")}, Options{})
	if err != nil || len(c.Sides) != 2 || c.Baseline != "a" || c.Sides[0].Stages[1].Target != "y" {
		t.Errorf("%+v, %v", c, err)
	}
}

// Of repeats the medians are shown; the change is that of the means, which is tested.
func TestMediansOfSeveralRuns(t *testing.T) {
	side := func(name string, values ...float64) Side {
		s := Side{Name: name}
		for _, v := range values {
			one := costing(name+string(rune('a'+len(s.Runs))), 1, stageOf(name, "1", v))
			s.Runs = append(s.Runs, one.Runs...)
		}
		return s
	}
	c, err := Of([]Side{side("a", 10, 10.1, 10.5), side("b", 20, 20.2, 21), side("c", 10, 10.1, 10.5)}, Options{Tolerance: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	d := metric(t, &c.Sides[0].Stages[0], "ttft_ms.mean")
	if d.Baseline != 10.1 || d.Value != 20.2 || math.Abs(*d.Change-1) > 1e-9 || d.Outcome != Worse {
		t.Errorf("%+v", d)
	}
}

// Files of other tools stand beside the stage at their load whose requests are as long, by their definitions, untested.
func TestOtherTools(t *testing.T) {
	base := stageOf("x", "concurrency 4", 10)
	base.Load.Concurrency, base.OSL.Seen = new(uint32(4)), &histogram.Summary{Mean: 100}
	base.VLLM.TTFT = &results.VLLMMetric{Mean: 8}
	of := func(sides ...Side) (*Comparison, error) {
		return Of(append([]Side{costing("a", 1, base)}, sides...), Options{})
	}
	c, err := of(tool(vllm, 4, 101, map[string]float64{"ttft_ms.mean": 12, "output_token_throughput": 50}),
		tool("GuideLLM", 0, 95, map[string]float64{"ttft_ms.mean": 12}), tool("AIPerf", 4, 50, nil), tool("SGLang", 8, 100, nil))
	if err != nil {
		t.Fatal(err)
	}
	for side, want := range []float64{0.5, 0.2} {
		if d := metric(t, &c.Sides[side].Stages[0], "ttft_ms.mean"); math.Abs(*d.Change-want) > 1e-9 || d.Outcome != Untested {
			t.Errorf("%s: %+v", c.Sides[side].Name, d)
		}
	}
	if c.Sides[0].Name != "vLLM" || c.Sides[0].Tool != vllm || len(c.Sides[0].Stages[0].Metrics) != 2 {
		t.Errorf("%+v", c.Sides[0])
	}
	for side, want := range map[int]string{2: "50 against 100 tokens", 3: "x has no stage at this load"} {
		if left := c.Sides[side].Unmatched; len(left) != 1 || !strings.HasSuffix(left[0].Why, want) {
			t.Errorf("%+v, want %s", left, want)
		}
	}
	if _, err := of(tool(vllm, 8, 100, nil)); err == nil || !strings.HasSuffix(err.Error(), "(at its load: x has no stage at this load)") {
		t.Error(err)
	}
	if _, err := Of([]Side{tool(vllm, 4, 100, nil), costing("a", 1, base)}, Options{}); err == nil ||
		!strings.HasSuffix(err.Error(), "give a run of Spate first, as the baseline") {
		t.Error(err)
	}
	if _, err := of(costing("b", 1, base), costing("b", 1, base)); err == nil || !strings.Contains(err.Error(), "b and b are the same run") {
		t.Error(err)
	}
}
