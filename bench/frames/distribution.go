package main

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"
)

// Each power of two is split into 2^binBits bins: a value is known to 1/128.
const (
	binBits = 7
	bins    = (64 - binBits) << binBits
)

// distribution counts times in bins, to the nanosecond below 256 ns. It is safe for concurrent use, and does not
// allocate.
type distribution struct{ counts [bins]atomic.Uint64 }

// add counts a time. A negative time counts as 0.
func (d *distribution) add(t time.Duration) { d.counts[binOf(uint64(max(t, 0)))].Add(1) }

// binOf returns the bin of a value: its power of two above binBits, and the bits after its highest bit.
func binOf(v uint64) int {
	shift := max(bits.Len64(v)-binBits-1, 0)
	return shift<<binBits + int(v>>shift)
}

// highest returns the highest value of a bin.
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

// quantile returns the time that the given share of all times does not exceed.
func (d *distribution) quantile(share float64) time.Duration {
	left := max(int64(share*float64(d.count())+0.5), 1)
	for i := range d.counts {
		if left -= int64(d.counts[i].Load()); left <= 0 {
			return time.Duration(highest(i))
		}
	}
	return 0
}

// String returns p50, p99, p99.9 and the maximum, in microseconds.
func (d *distribution) String() string {
	return fmt.Sprintf("%.1f/%.1f/%.1f/%.1f", us(d.quantile(0.5)), us(d.quantile(0.99)), us(d.quantile(0.999)),
		us(d.quantile(1)))
}
