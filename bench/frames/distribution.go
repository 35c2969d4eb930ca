package main

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Each power of two is split into so many bins: a value is known to 1/128.
const (
	binBits = 7
	bins    = (64 - binBits) << binBits
)

// distribution counts times in bins, to the nanosecond below 256 ns. It may be used concurrently, and allocates
// nothing.
type distribution struct{ counts [bins]atomic.Uint64 }

// add counts a time; what is below 0 counts as 0.
func (d *distribution) add(t time.Duration) { d.counts[binOf(uint64(max(t, 0)))].Add(1) }

// binOf is the bin of a value: the power of two above binBits, and the bits behind its highest.
func binOf(v uint64) int {
	shift := max(bits.Len64(v)-binBits-1, 0)
	return shift<<binBits + int(v>>shift)
}

// highest is the highest value of a bin.
func highest(bin int) uint64 {
	shift := max(bin>>binBits-1, 0)
	return (uint64(bin-shift<<binBits)+1)<<shift - 1
}

func (d *distribution) count() (n uint64) {
	for i := range d.counts {
		n += d.counts[i].Load()
	}
	return n
}

// quantile is the time that a share of all does not exceed.
func (d *distribution) quantile(share float64) time.Duration {
	left := max(int64(share*float64(d.count())+0.5), 1)
	for i := range d.counts {
		if left -= int64(d.counts[i].Load()); left <= 0 {
			return time.Duration(highest(i))
		}
	}
	return 0
}

// String gives p50, p99, p99.9 and the most, in microseconds.
func (d *distribution) String() string {
	return fmt.Sprintf("%.1f/%.1f/%.1f/%.1f", us(d.quantile(0.5)), us(d.quantile(0.99)), us(d.quantile(0.999)),
		us(d.quantile(1)))
}
