package aggregate

import (
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Load is a load point. A closed loop has a concurrency, an open loop a rate and an arrival process.
type Load struct {
	// The load point in words, without its ends: "concurrency 8", "2 req/s poisson".
	Words string `json:"words"`
	// Requests in flight at all times, over all agents; with phases, the most.
	Concurrency *uint32 `json:"concurrency,omitempty"`
	// Requests per second, over all agents; with phases, the most.
	Rate *float64 `json:"rate,omitempty"`
	// Arrival process: "poisson", "constant", "gamma" or "trace".
	Arrival *string `json:"arrival,omitempty"`
	// Gamma arrivals: shape of the gaps' distribution.
	Burstiness *float64 `json:"burstiness,omitempty"`
	// Trace: so many times faster than it was recorded.
	ReplaySpeed *float64 `json:"replay_speed,omitempty"`
	// Concurrency or rate over time.
	Phases []Phase `json:"phases,omitempty"`
	// Closed loop: mean time between a request's end and the next one of its slot, in milliseconds.
	ThinkTimeMs *float64 `json:"think_time_ms,omitempty"`
	// Number of the repeat, from 0.
	Repeat uint32 `json:"repeat"`
	// Measured arrivals after which the stage ends. Null: no such end.
	Requests *uint64 `json:"requests"`
	// Time in which measured requests are started, in seconds. Null: no such end.
	DurationS *float64 `json:"duration_s"`
}

// Phase is a time in which a rate or a concurrency changes, or holds.
type Phase struct {
	// Value at its begin.
	From float64 `json:"from"`
	// Value at its end.
	To float64 `json:"to"`
	// How it gets there: "linear", "exponential" or "steps".
	Shape string `json:"shape"`
	// Length in seconds.
	DurationS float64 `json:"duration_s"`
}

// loadOf describes a load point.
func loadOf(p *spatev1.LoadPoint) Load {
	l := Load{
		Words: plans.LoadWords(p), Burstiness: unlessZero(p.GetBurstiness()),
		ReplaySpeed: unlessZero(p.GetReplaySpeed()), Repeat: p.GetRepeat(),
		Requests: unlessZero(p.GetRequests()), DurationS: seconds(p.GetDuration()),
	}
	for _, phase := range p.GetPhases() {
		l.Phases = append(l.Phases, Phase{phase.GetFrom(), phase.GetTo(), phase.GetShape(),
			phase.GetDuration().AsDuration().Seconds()})
	}
	if p.GetThinkTime() != nil {
		mean := millis(p.GetThinkTime().GetMean().AsDuration().Nanoseconds())
		l.ThinkTimeMs = &mean
	}
	if p.GetConcurrency() > 0 {
		l.Concurrency = unlessZero(p.GetConcurrency())
		return l
	}
	l.Rate, l.Arrival = unlessZero(p.GetRate()), unlessZero(p.GetArrival())
	return l
}

// String says the load point in words: "concurrency 8", "2 req/s poisson".
func (l Load) String() string { return l.Words }
