package loadpoint

import (
	"slices"
	"time"

	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// RatePhases returns the phases of a load whose rate changes over time, also if they are given as a spike or as steps.
// It returns none for other loads.
func RatePhases(l *spatev1.Load) []*spatev1.Phase {
	return phasesOf(l.GetRatePhases(), l.GetRateSpike(), l.GetRateSteps())
}

// ConcurrencyPhases returns the phases of a load whose concurrency changes over time. See RatePhases.
func ConcurrencyPhases(l *spatev1.Load) []*spatev1.Phase {
	return phasesOf(l.GetConcurrencyPhases(), l.GetConcurrencySpike(), l.GetConcurrencySteps())
}

func phasesOf(given []*spatev1.Phase, spike *spatev1.Spike, steps *spatev1.Steps) []*spatev1.Phase {
	phases := slices.Clone(given)
	switch {
	case spike != nil:
		after := spike.GetAfter()
		if after == nil {
			after = spike.GetAt()
		}
		phases = append(phases,
			&spatev1.Phase{From: spike.GetBase(), Duration: spike.GetAt()},
			&spatev1.Phase{From: spike.GetPeak(), Duration: spike.GetLength()},
			&spatev1.Phase{From: spike.GetBase(), Duration: after})
	case steps != nil:
		for _, v := range steps.GetValues() {
			phases = append(phases, &spatev1.Phase{From: v, Duration: steps.GetHold()})
		}
	}
	return defaults.Phases(phases)
}

// LargestPhase returns the largest value of phases.
func LargestPhase(phases []*spatev1.Phase) float64 {
	largest := 0.0
	for _, p := range phases {
		largest = max(largest, p.GetFrom(), defaults.PhaseEnd(p))
	}
	return largest
}

// PhasesTime returns the total duration of a load's phases.
func PhasesTime(l *spatev1.Load) time.Duration {
	return Time(append(ConcurrencyPhases(l), RatePhases(l)...))
}

// Time returns the total duration of phases.
func Time(phases []*spatev1.Phase) time.Duration {
	var total time.Duration
	for _, p := range phases {
		total += p.GetDuration().AsDuration()
	}
	return total
}
