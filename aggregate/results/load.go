package results

import (
	"strings"

	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Load is the load of a stage. A closed loop has a concurrency; an open loop has a rate and an arrival process.
type Load struct {
	// The load in words, without when it ends: "concurrency 8", "2 req/s poisson".
	Words string `json:"words"`
	// Number of slots (requests in flight at all times), over all agents; with phases, the highest number.
	Concurrency *uint32 `json:"concurrency,omitempty"`
	// Requests per second, over all agents; with phases, the highest rate.
	Rate *float64 `json:"rate,omitempty"`
	// Arrival process: "poisson", "constant", "gamma" or "trace".
	Arrival *string `json:"arrival,omitempty"`
	// Open loop: most requests in flight, over all agents.
	MaxInFlight *uint32 `json:"max_in_flight,omitempty"`
	// Gamma arrivals: shape parameter of the distribution of gaps.
	Burstiness *float64 `json:"burstiness,omitempty"`
	// Trace: factor by which the replay is faster than the recording.
	ReplaySpeed *float64 `json:"replay_speed,omitempty"`
	// Concurrency or rate over time.
	Phases []Phase `json:"phases,omitempty"`
	// Closed loop: mean time between the end of a request and the start of the next one in its slot, in milliseconds.
	ThinkTimeMs *float64 `json:"think_time_ms,omitempty"`
	// Number of the repeat, from 0.
	Repeat uint32 `json:"repeat"`
	// Number of measured arrivals after which the stage ends. Null: the load has no such limit.
	Requests *uint64 `json:"requests"`
	// Time in which measured requests start, in seconds. Null: the load has no such limit.
	DurationS *float64 `json:"duration_s"`
}

// Phase is a time in which a rate or a concurrency changes or stays the same.
type Phase struct {
	// Rate or concurrency at the start of the phase.
	From float64 `json:"from"`
	// Rate or concurrency at the end of the phase.
	To float64 `json:"to"`
	// Length in seconds.
	DurationS float64 `json:"duration_s"`
}

// loadOf describes the load of a stage.
func loadOf(p *spatev1.LoadPoint) Load {
	l := Load{
		Words: loadpoint.Words(p), Burstiness: unlessZero(p.GetBurstiness()),
		MaxInFlight: unlessZero(p.GetMaxInFlight()), ReplaySpeed: unlessZero(p.GetReplaySpeed()),
		Repeat: p.GetRepeat(), Requests: unlessZero(p.GetRequests()), DurationS: seconds(p.GetDuration()),
	}
	for _, phase := range p.GetPhases() {
		l.Phases = append(l.Phases, Phase{phase.GetFrom(), phase.GetTo(), phase.GetDuration().AsDuration().Seconds()})
	}
	if p.GetThinkTime() != nil {
		l.ThinkTimeMs = new(millis(p.GetThinkTime().GetMean().AsDuration().Nanoseconds()))
	}
	if p.GetConcurrency() > 0 {
		l.Concurrency = unlessZero(p.GetConcurrency())
		return l
	}
	l.Rate, l.Arrival = unlessZero(p.GetRate()), unlessZero(p.GetArrival())
	return l
}

// Value returns the load's concurrency or rate. 0: it has neither.
func (l Load) Value() float64 {
	switch {
	case l.Concurrency != nil:
		return float64(*l.Concurrency)
	case l.Rate != nil:
		return *l.Rate
	}
	return 0
}

// Shared returns the load in words, without the number of the repeat, in older results from 0: that of all repeats.
func (l Load) Shared() string {
	shared, _, _ := strings.Cut(l.Words, ", repeat ")
	return shared
}

// String returns the load in words: "concurrency 8", "2 req/s poisson".
func (l Load) String() string { return l.Words }
