package engine

import (
	"math"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/config"
)

// Model is what a loop runs: an engine, a disaggregated group, or a metronome. Its instants never go back.
type Model interface {
	// Add queues a sequence and Cancel removes one, at the model's current instant.
	Add(*Sequence)
	Cancel(*Sequence)
	// Next returns the instant of the next event, or false if nothing will happen without a new sequence.
	Next() (clock.Instant, bool)
	// Advance moves the model to an instant and appends what it emits on the way, in order of time.
	Advance(to clock.Instant, dst []Emission) []Emission
	// Running counts the sequences that have started, Waiting those that have not.
	Running() int
	Waiting() int
}

// New returns the configured model of one of the engines or groups of all endpoints, numbered from 0, at an instant.
func New(c *config.Config, number int, now clock.Instant) Model {
	if c.Pace.Set() {
		return newMetronome(c.Pace, now)
	}
	e := newEngine(modelOf(c, number), c.PrefillEngines, c.Replicas, now)
	for i := range e.decoders {
		e.decoders[i].noise = e.model.stepNoise(c.Seed+uint64(number), i)
	}
	return &e
}

// modelOf returns the model of one engine. number counts the engines of all endpoints from 0.
func modelOf(c *config.Config, number int) config.Model {
	m := c.Model
	if last := c.Endpoints*c.Replicas - 1; c.ReplicaSpread > 0 && last > 0 {
		m.SpeedUp(1 / (1 + c.ReplicaSpread*math.Pow(float64(number)/float64(last), 1+c.ReplicaSkew)))
	}
	return m
}
