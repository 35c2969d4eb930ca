package aggregate

import (
	"fmt"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Load is a load point. A closed loop has a concurrency, an open loop a rate and an arrival process.
type Load struct {
	// Requests in flight at all times, over all agents.
	Concurrency *uint32 `json:"concurrency,omitempty"`
	// Requests per second, over all agents.
	Rate *float64 `json:"rate,omitempty"`
	// Arrival process: "poisson" or "constant".
	Arrival *string `json:"arrival,omitempty"`
	// Measured requests after which the stage ends. Null: no such end.
	Requests *uint64 `json:"requests"`
	// Time in which measured requests are started, in seconds. Null: no such end.
	DurationS *float64 `json:"duration_s"`
}

// loadOf describes a load point.
func loadOf(p *spatev1.LoadPoint) Load {
	l := Load{Requests: unlessZero(p.GetRequests()), DurationS: seconds(p.GetDuration())}
	if p.GetConcurrency() > 0 {
		l.Concurrency = unlessZero(p.GetConcurrency())
		return l
	}
	l.Rate, l.Arrival = unlessZero(p.GetRate()), unlessZero(p.GetArrival())
	return l
}

// String says the load point in words: "concurrency 8", "2 req/s poisson".
func (l Load) String() string {
	if l.Concurrency != nil {
		return fmt.Sprintf("concurrency %d", *l.Concurrency)
	}
	if l.Rate == nil {
		return "no load"
	}
	text := strconv.FormatFloat(*l.Rate, 'g', -1, 64) + " req/s"
	if l.Arrival != nil {
		text += " " + *l.Arrival
	}
	return text
}
