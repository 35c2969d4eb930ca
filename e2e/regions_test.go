package e2e

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
)

const regionsPlan = `
name: regions
targets: [{name: t, simulator: {decode_step: 2ms, endpoints: 2}}]
workloads: [{random: {isl: 10, osl: 3}}]
regions: {eu: 0.6, us: 0.4}
observers: {rate: 4}
loads:
  - {rate: [50], arrival: constant, duration: 4s}
  - {concurrency: [10], requests: 100}
`

// A plan with regions can be tried on one machine: each region sends its part, an observer measures in regions with two
// agents, and a region with only one agent is reported.
func TestRegionsOnOneMachine(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, regionsPlan, "--agents", "eu=2,us=1")
	r.MustExit(0)
	said := r.Stderr.String()
	if !inOrder(said, "2 stages on 3 agents: eu (eu-1, eu-2), us (us-1); ", "  observers: eu-2 (eu)\n",
		"! no observer for us: a region needs two agents") {
		t.Errorf("it said\n%s", said)
	}
	result := r.Results()
	for i, stage := range result.Stages {
		sent := map[string]float64{}
		for _, region := range stage.Regions {
			sent[region.Name] = float64(region.Requests.Completed)
		}
		if part := sent["eu"] / (sent["eu"] + sent["us"]); i == 0 && math.Abs(part-0.6) > 0.01 || len(sent) != 2 {
			t.Errorf("stage %d: sent by region: %v", i, sent)
		}
		observed := slices.IndexFunc(stage.Observers, func(o results.ObserverResult) bool {
			return o.Region == "eu" && slices.Equal(o.Agents, []string{"eu-2"})
		})
		if len(stage.Observers) != 1 || observed < 0 || stage.Observers[0].Requests.Completed == 0 {
			t.Errorf("stage %d: observers %+v", i, stage.Observers)
		}
	}
	if n := result.Stages[0].Requests.Completed; !result.Run.Complete || n != 200 ||
		result.Stages[1].Requests.Completed != 100 {
		t.Errorf("run %+v, %d requests", result.Run, n)
	}
	report := r.Text("report.md")
	if !inOrder(report, "## Regions", "## Connections by region and endpoint",
		"## Observers: what a light load saw beside the load", "observer eu-2 | 4 req/s constant", "## Start",
		"## Agents") {
		t.Errorf("report.md has not all its sections:\n%s", report)
	}
	if !regexp.MustCompile(`\| eu-2 \| eu \|.*\| observer in 2 stages \|`).MatchString(report) {
		t.Errorf("report.md does not say who observed:\n%s", report)
	}
	for _, lines := range []string{said, report} {
		if strings.Contains(lines, "PARTIAL") {
			t.Errorf("something is missing:\n%s", lines)
		}
	}
}
