package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/tables"
	"github.com/spate-load/spate/thresholds"
)

// vllm is vLLM's benchmark as package audit calls it: results have a run's times by its definitions.
const vllm = "vLLM"

// tools say how the numbers of other tools differ from ours. docs/accuracy.md has them side by side.
var tools = map[string]string{
	vllm: "it times each chunk, with or without a token: its times are compared with the baseline's by its definitions",
	"GuideLLM": "its ITL is the time per token of all requests together, and stands under TPOT; its E2E lasts to the end of " +
		"the stream, its TTFT to the first text",
	"AIPerf": "its ITL is TPOT here, its inter chunk latency ITL; its TTFT lasts to the first text; its own tokenizer counts " +
		"tokens unless it is told otherwise",
}

// foreign reports whether a side is a file of another tool.
func foreign(s Side) bool {
	return slices.ContainsFunc(s.Runs, func(r *Run) bool { return r.Tool != "" })
}

// rows says which runs those sides are that are named after their targets. Targets of one run need no words.
func rows(sides []Side) (all []string) {
	for _, s := range sides {
		if s.Name != s.Target || sides[0].Runs[0].Result == sides[len(sides)-1].Runs[0].Result {
			continue
		}
		names := lists.Each(s.Runs, func(run *Run) string { return run.Name })
		all = append(all, s.Name+": "+strings.Join(names, ", "))
	}
	return all
}

// divided returns a side for each target, the plan's baseline first, unless all runs have the same several targets.
// Sides are named after their targets if no two have the same. The error is that a run is given twice, or that the
// baseline is of another tool.
func divided(sides []Side) (all []Side, err error) {
	if foreign(sides[0]) {
		return nil, fmt.Errorf("%s is a file of another tool: give a run of Spate first, as the baseline", sides[0].Name)
	}
	var whole Side
	ours, alike := sides[0].targets(), true
	for _, s := range sides {
		whole.Runs = append(whole.Runs, s.Runs...)
		theirs := s.targets()
		alike = alike && len(ours) == len(theirs) &&
			!slices.ContainsFunc(theirs, func(name string) bool { return !slices.Contains(ours, name) })
	}
	switch err := whole.distinct(); {
	case sides[0].Target != "":
		return sides, nil
	case err != nil || len(ours) > 1 && alike:
		return sides, err
	}
	var targets []string
	for _, s := range sides {
		for _, target := range s.targets() {
			one := Side{Name: s.Name, Runs: s.Runs, Target: target}
			if !alike {
				one.Name += " (" + target + ")"
			}
			all, targets = append(all, one), words.AppendOnce(targets, target)
		}
	}
	for i := range all {
		if len(targets) == len(all) {
			all[i].Name = targets[i]
		}
	}
	return all, nil
}

// of returns a number of a stage by the definitions of a tool, ours if that has no name. Nil: it is not known.
func (m *Metric) of(s *stage, tool string) *float64 {
	switch {
	case s.run.Tool != "":
		return s.run.Numbers[s.result.Index][m.Name]
	case tool == vllm && strings.Contains(m.Name, "_ms."):
		name := strings.NewReplacer("e2e", "e2el", "p50", "median").Replace(m.Name)
		return thresholds.Number(s.result, "vllm."+name)
	}
	return m.value(s.result)
}

// beside gives the stages of another tool's file the workload and the load of the baseline's stages that asked for the
// same, and returns those that have none.
func (s *Side) beside(baseline *Side) (left []Left) {
	for _, run := range s.Runs {
		if run.Tool == "" {
			continue
		}
		all := run.Result.Stages
		run.Result.Stages = nil
		for _, of := range all {
			if found, why := baseline.asked(&of); found != nil {
				of.Workload, of.Load, of.Seed = found.Workload, found.Load, found.Seed
				run.Result.Stages = append(run.Result.Stages, of)
			} else {
				left = append(left, Left{Stage: cmp.Or(of.Load.Words, "any load"), Why: why})
			}
		}
	}
	return left
}

// templateTokens is how many tokens a chat template may add to a prompt, which some tools do not count.
const templateTokens = 32

// asked returns the only stage at the load of another tool's whose requests are as long, or why there is none.
func (s *Side) asked(of *results.StageResult) (found *results.StageResult, why string) {
	why = s.Name + " has no stage at this load"
	for _, run := range s.Runs {
		for b := range lists.Refs(run.Result.Stages) {
			if s.Target != "" && b.Target != s.Target || of.Load.Value() > 0 && (of.Load.Value() != b.Load.Value() ||
				(of.Load.Rate == nil) != (b.Load.Rate == nil) || len(b.Load.Phases) > 0) {
				continue
			}
			in, out := longer(of.ISL.Seen, b.ISL.Seen, templateTokens), longer(of.OSL.Seen, b.OSL.Seen, 0)
			switch {
			case in+out != "":
				why = fmt.Sprintf("its requests are not as long as those of %s:%s%s", s.Name, in, out)
			case found != nil && (found.Workload != b.Workload || found.Load.Shared() != b.Load.Shared()):
				return nil, "several stages of " + s.Name + " are like it, and the file does not tell which it is"
			default:
				found = b
			}
		}
	}
	return found, why
}

// longer says that two lengths are not those of one workload: by how much they differ. Empty: they may be.
func longer(a, b *histogram.Summary, slack float64) string {
	if a == nil || b == nil || math.Abs(a.Mean-b.Mean) <= 0.1*b.Mean+slack {
		return ""
	}
	return fmt.Sprintf(" %.4g against %.4g tokens", a.Mean, b.Mean)
}

// economy are the numbers of a target's GPUs and costs.
var economy = [...]Metric{{Name: "output_tokens_per_gpu", Title: "tok/s per GPU", Unit: "tok/s per GPU", Higher: true},
	{Name: "output_tokens_per_dollar", Title: "tokens per $", Unit: "tokens per $", Higher: true}}

// economise adds the numbers of GPUs and costs: they change as the tokens do, times a factor that chance does not move.
func (s *Stage) economise(ours, theirs *stage, o Options) {
	of := s.Difference("output_token_throughput")
	if of == nil {
		return
	}
	tokens := *of // Metrics grows
	x, y := tables.Economy(ours.run.Result, ours.result), tables.Economy(theirs.run.Result, theirs.result)
	for m := range lists.Refs(economy[:]) {
		a, b := x[m.Name], y[m.Name]
		if a == nil || b == nil {
			continue
		}
		base, value := *a / *ours.result.OutputTokenThroughput, *b / *theirs.result.OutputTokenThroughput
		d := m.compare(tokens.Baseline*base, tokens.Value*value).untested(tokens.Why)
		if t := tokens.test; t != nil {
			d = d.testedAs(m, t.difference+math.Log(value/base), t.spread, t.slack, o)
			d.Change = new(m.change(d.test.difference))
		}
		s.Metrics = append(s.Metrics, d)
	}
}
