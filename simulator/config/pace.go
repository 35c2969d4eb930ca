package config

import "time"

// Pace is a steady rhythm that replaces the model of the engines, for measuring clients: what a client should see is
// known in advance. Nothing queues. The zero Pace means no pace: engines are modelled.
type Pace struct {
	// FirstToken is the time from a request's arrival to its first token.
	FirstToken time.Duration
	// BetweenTokens is the time from one token to the next. Above 0.
	BetweenTokens time.Duration
	// Ticks gives all streams their tokens at the same instants, as batching engines do. The ticks are BetweenTokens
	// apart, and a first token comes with the first tick that is at least FirstToken after its request. Default: each
	// stream has its own schedule from its arrival on.
	Ticks bool
}

// Set reports whether a pace is configured.
func (p *Pace) Set() bool { return *p != Pace{} }

// SpeedUp makes the pace k times faster.
func (p *Pace) SpeedUp(k float64) {
	p.FirstToken, p.BetweenTokens = spedUp(p.FirstToken, k), spedUp(p.BetweenTokens, k)
}
