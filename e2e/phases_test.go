package e2e

import (
	"math"
	"slices"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

const phasesPlan = `
name: phases
seed: 4
targets:
  - {name: one, simulator: {decode_step: 3ms, decode_step_per_request: 10us}}
workloads:
  - random: {isl: 10, osl: 8}
loads:
  - concurrency_phases:
      - {from: 2, duration: 500ms}
      - {from: 5, duration: 500ms}
      - {from: 8, duration: 500ms}
      - {from: 3, duration: 800ms}
      - {from: 3, to: 9, duration: 900ms}
      - {from: 0, duration: 300ms}
      - {from: 5, duration: 500ms}
  - arrival: constant
    rate_phases:
      - {to: 100, duration: 1s}
      - {from: 50, duration: 600ms}
      - {from: 50, to: 150, duration: 900ms}
      - {from: 60, to: 20, duration: 600ms}
`

// phase is a phase as a person reads it: its value at a time, in seconds from its start, and the integral of the value.
type phase struct {
	ms       int64
	from, to float64
}

func (p phase) seconds() float64 { return float64(p.ms) / 1e3 }

func (p phase) at(t float64) float64 {
	share := t / p.seconds()
	return p.from + (p.to-p.from)*share
}

func (p phase) integral(t float64) float64 {
	return p.from*t + (p.to-p.from)*t*t/(2*p.seconds())
}

// at returns the phase at a time, its value then, and the integral up to then.
func at(phases []phase, ns int64) (number int, value, integral float64) {
	for i, p := range phases {
		if ns < p.ms*1e6 {
			return i, p.at(float64(ns) / 1e9), integral + p.integral(float64(ns)/1e9)
		}
		integral += p.integral(p.seconds())
		ns -= p.ms * 1e6
	}
	return len(phases), 0, integral
}

// A load of phases always has the value that its phases give, over all agents.
func TestPhasesAreKept(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, phasesPlan, "--agents", "3")
	r.MustExit(0)
	rows := r.Rows()
	t.Run("concurrency", func(t *testing.T) { checkConcurrency(t, rows[0]) })
	rates := []phase{{1000, 0, 100}, {600, 50, 50}, {900, 50, 150}, {600, 60, 20}}
	t.Run("constant rate", func(t *testing.T) { checkConstantRate(t, rows[1], rates) })
}

// checkConcurrency checks the requests in flight at each start. A slot that is no longer active finishes its request,
// and starts no other. So the bound is the largest value within the time of the longest request.
func checkConcurrency(t *testing.T, rows []programs.Row) {
	phases := []phase{{500, 2, 2}, {500, 5, 5}, {500, 8, 8}, {800, 3, 3}, {900, 3, 9}, {300, 0, 0}, {500, 5, 5}}
	longest := int64(0)
	for _, r := range rows {
		longest = max(longest, r.EndNs-r.StartNs)
	}
	slices.SortFunc(rows, func(a, b programs.Row) int { return int(a.StartNs - b.StartNs) })
	most := make([]int, len(phases))
	for _, r := range rows {
		inFlight := 0
		for _, other := range rows {
			if other.StartNs <= r.StartNs && other.EndNs > r.StartNs {
				inFlight++
			}
		}
		bound := 0.0
		for back := range int64(65) {
			_, value, _ := at(phases, r.StartNs-back*longest/64)
			bound = max(bound, math.Ceil(value))
		}
		if float64(inFlight) > bound {
			t.Errorf("%d requests in flight at %d ns, at most %v were to be", inFlight, r.StartNs, bound)
		}
		number, value, _ := at(phases, r.ScheduledNs)
		if value == 0 {
			t.Fatalf("request %d is wanted at %d ns, when no slot is active", r.Index, r.ScheduledNs)
		}
		most[number] = max(most[number], inFlight)
	}
	// A phase may start with what the one before left, and one has no requests.
	if most[0] != 2 || most[2] != 8 || most[4] != 9 || most[5] != 0 || most[6] != 5 {
		t.Errorf("most requests in flight by phase: %v", most)
	}
}

// checkConstantRate checks that the integral of the rate grows by one between two arrivals.
func checkConstantRate(t *testing.T, rows []programs.Row, phases []phase) {
	_, _, all := at(phases, math.MaxInt64)
	if off := float64(len(rows)) - all; math.Abs(off) > 1 {
		t.Errorf("%d arrivals, the rates make %v", len(rows), all)
	}
	_, _, first := at(phases, rows[0].ScheduledNs)
	for i, r := range rows {
		_, _, integral := at(phases, r.ScheduledNs)
		if off := integral - first - float64(i); r.Index != uint64(i) || math.Abs(off) > 1e-5 {
			t.Fatalf("arrival %d (index %d) comes at %d ns, when the rates make %v", i, r.Index,
				r.ScheduledNs, integral)
		}
	}
}
