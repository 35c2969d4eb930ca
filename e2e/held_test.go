package e2e

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

const heldPlan = `
name: held
seed: 3
targets:
  - {name: slow, simulator: {decode_step: 5ms}}
workloads:
  - random: {isl: 50, osl: 10}
loads:
  - {rate: [1000], requests: 200, max_in_flight: 8}
  - {rate: [1000], duration: 500ms, max_in_flight: 4}
drain_timeout: 1s
`

// An open loop far above what its limit lets through, on agents of different weight: no more requests are in flight
// than the plan says, what was held back is told and doubts nothing, and a load by requests sends all of them.
func TestRequestsAreHeldBack(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, heldPlan, "--agents", "3")
	r.MustExit(0)
	rows, report := r.Rows(), r.Text("report.md")
	for i, s := range r.Results().Stages {
		most := int(*s.Load.MaxInFlight)
		for _, a := range rows[s.Index] {
			inFlight := 0
			for _, b := range rows[s.Index] {
				if b.Agent == a.Agent && b.StartNs <= a.StartNs && a.StartNs < b.EndNs {
					inFlight++
				}
			}
			if part := (most + 2) / 3; inFlight > part {
				t.Fatalf("stage %d: agent %s has %d requests in flight, its part of %d is at most %d", i, a.Agent,
					inFlight, most, part)
			}
		}
		if s.Held == nil || s.Held.Count < 100 || s.PeakConcurrency.Requests > uint64(most) {
			t.Fatalf("stage %d: held %+v, at most %d in flight", i, s.Held, s.PeakConcurrency.Requests)
		}
		if never := *s.Requests.NeverSent; i == 0 && (s.Requests.Completed != 200 || never != 0) ||
			i == 1 && s.Requests.Completed+never < 400 {
			t.Errorf("stage %d: %+v", i, s.Requests)
		}
		if len(s.Trust.Notes) != 1 || !strings.Contains(s.Trust.Notes[0], "held back") ||
			!strings.Contains(report, s.Trust.Notes[0]) {
			t.Errorf("stage %d: notes %q", i, s.Trust.Notes)
		}
		for _, c := range s.Trust.Checks {
			if c.Name == "rate" || c.Name == "never_sent" || c.Name == "send_delay" && c.Value > s.Held.Mean {
				t.Errorf("stage %d: %+v", i, c)
			}
		}
	}
}
