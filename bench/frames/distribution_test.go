package main

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A value lies in its bin, whose width is at most 1/128 of the value.
func TestBins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Uint64Range(0, math.MaxInt64).Draw(t, "value")
		bin := binOf(v)
		high := highest(bin)
		if v > high || bin > 0 && v <= highest(bin-1) {
			t.Fatalf("%d is not in bin %d", v, bin)
		}
		if high-v > v>>binBits {
			t.Fatalf("bin of %d reaches to %d", v, high)
		}
	})
}

func TestQuantiles(t *testing.T) {
	var d distribution
	for v := range 1000 {
		d.add(time.Duration(v+1) * time.Nanosecond)
	}
	d.add(-time.Second)
	for share, want := range map[float64]time.Duration{0: 0, 0.1: 99, 1: 1003} {
		if got := d.quantile(share); got != want {
			t.Errorf("quantile %v is %d, want %d", share, got, want)
		}
	}
}
