package e2e

import (
	"math"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

const regionsPlan = `
name: regions
targets: [{name: t, simulator: {decode_step: 2ms, endpoints: 2}}]
workloads: [{random: {isl: 10, osl: 3}}]
regions: {eu: 0.6, us: 0.4}
loads:
  - {rate: [50], arrival: constant, duration: 4s}
  - {concurrency: [10], requests: 100}
`

// A plan with regions can be tried on one machine: each region sends its part, whatever the number of its agents.
func TestRegionsOnOneMachine(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, regionsPlan, "--agents", "eu=2,us=1")
	r.MustExit(0)
	said := r.Stderr.String()
	if !strings.Contains(said, "2 stages on 3 agents: eu-1, eu-2, us-1; ") {
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
	}
	if n := result.Stages[0].Requests.Completed; !result.Run.Complete || n != 200 ||
		result.Stages[1].Requests.Completed != 100 {
		t.Errorf("run %+v, %d requests", result.Run, n)
	}
	report := r.Text("report.md")
	if !inOrder(report, "## Regions", "## Connections by region and endpoint", "## Start", "## Agents") {
		t.Errorf("report.md has not all its sections:\n%s", report)
	}
	for _, lines := range []string{said, report} {
		if strings.Contains(lines, "PARTIAL") {
			t.Errorf("something is missing:\n%s", lines)
		}
	}
}
