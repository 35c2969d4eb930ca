package main

import (
	"slices"
	"testing"
	"time"
)

func TestLoad(t *testing.T) {
	p := Pace{TTFT: 50 * time.Millisecond, ITL: 20 * time.Millisecond, Frames: 40_000, Lasting: 5 * time.Second,
		ISL: 10, OSL: 100}
	for _, c := range []struct {
		shape    Shape
		streams  int
		itl      time.Duration
		requests int
	}{
		{Ticks, 1, 20 * time.Millisecond, 5},
		{Spread, 500, 20 * time.Millisecond, 1000},
		{Ticks, 1000, 25 * time.Millisecond, 1000},
		{Ticks, 4000, 100 * time.Millisecond, 4000},
	} {
		l := p.load(c.shape, c.streams)
		if l.ITL != c.itl || l.Requests != c.requests || l.Streams != c.streams {
			t.Errorf("%s, %d streams: %+v, want an ITL of %v and %d requests", c.shape, c.streams, l, c.itl, c.requests)
		}
	}
}

func TestLoads(t *testing.T) {
	s, err := parse([]string{"-streams", "1 100", "-shapes", "published ticks"})
	if err != nil {
		t.Fatal(err)
	}
	loads, err := s.loads()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range loads {
		names = append(names, l.name())
	}
	if want := []string{"published-1000", "ticks-1", "ticks-100"}; !slices.Equal(names, want) {
		t.Errorf("%v, want %v", names, want)
	}
	for _, bad := range [][]string{{"-streams", "0"}, {"-streams", "many"}, {"-shapes", "waves"}} {
		s, err := parse(bad)
		if err != nil {
			t.Fatal(err)
		}
		if loads, err := s.loads(); err == nil {
			t.Errorf("%v: %v, want an error", bad, loads)
		}
	}
}
