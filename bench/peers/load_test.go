package main

import (
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	p := Pace{TTFT: 50 * time.Millisecond, ITL: 20 * time.Millisecond, Frames: 40_000, Lasting: 5 * time.Second, ISL: 10, OSL: 100}
	for _, c := range []struct {
		shape    Shape
		streams  int
		itl      time.Duration
		requests int
	}{
		{Ticks, 1, 20 * time.Millisecond, 2},
		{Spread, 500, 20 * time.Millisecond, 1000},
		{Ticks, 1000, 25 * time.Millisecond, 1000},
		{Ticks, 4000, 100 * time.Millisecond, 4000},
		{Published, 4000, 10 * time.Millisecond, 4000},
	} {
		l := p.load(c.shape, c.streams)
		if l.ITL != c.itl || l.Requests != c.requests || l.Streams != c.streams {
			t.Errorf("%s, %d streams: %+v, want an ITL of %v and %d requests", c.shape, c.streams, l, c.itl, c.requests)
		}
	}
}
