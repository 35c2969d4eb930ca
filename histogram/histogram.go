// Package histogram counts values in HdrHistogram's bins and also keeps exact sums. Percentiles of many agents can be
// merged without loss, and means do not depend on bins.
//
// The bins, their numbering and the encoding are HdrHistogram's (V2), so that its tools can read our histograms. The
// sums are 128-bit integers, so merging is exact: the order of merges does not change a single bit of a result. The
// package does no I/O, reads no clock and takes no lock. Agents record into histograms, the coordinator decodes and
// merges them, reports read them.
package histogram

import (
	"errors"
	"fmt"
	"math"
)

// maxCount is the largest number of values in a histogram. The 128-bit sum of squares holds at most 2^44 squares of an
// hour in nanoseconds. At ten million values a second it takes 20 days to reach the limit.
const maxCount = 1 << 44

// ErrFull is returned if a histogram would hold more than 2^44 values.
var ErrFull = errors.New("histogram: more than 2^44 values: split the run")

// page holds the counts of the bins between a power of two and the next.
type page [pageBins]uint64

// Histogram counts values in bins and keeps their exact sums. A page of 8 KiB is allocated when the first value falls
// into it. Values within a factor of ten need 4 or 5 pages, the full range of an hour 24 (192 KiB). Reset keeps the
// pages. A Histogram is not safe for concurrent use. Use New to make one.
type Histogram struct {
	geometry *geometry
	layout   Layout
	totals   totals
	pages    [maxPages]*page
}

// totals is what a histogram keeps about its values besides the bins.
type totals struct {
	count    uint64
	sum      Uint128
	squares  Uint128
	min, max uint64 // without values: math.MaxUint64 and 0
}

// none is the totals of no values.
var none = totals{min: math.MaxUint64}

// plus returns the totals of both, and false if there are too many values for a histogram.
func (t totals) plus(o totals) (totals, bool) {
	return totals{
		count:   t.count + o.count,
		sum:     t.sum.Add(o.sum),
		squares: t.squares.Add(o.squares),
		min:     min(t.min, o.min),
		max:     max(t.max, o.max),
	}, o.count <= maxCount && t.count+o.count <= maxCount
}

// New returns an empty histogram. It panics if the layout does not exist.
func New(l Layout) *Histogram {
	return &Histogram{geometry: &geometries[l], layout: l, totals: none}
}

// Layout returns the histogram's layout.
func (h *Histogram) Layout() Layout { return h.layout }

// Record counts one value. A value outside the layout's range counts as the nearest end of the range, also in the sums.
// Negative values are a caller's mistake and count as 0. It allocates only pages that are used for the first time.
func (h *Histogram) Record(v int64) {
	u := h.geometry.clamp(v)
	index := h.geometry.index(u)
	p := h.pages[index>>pageBits]
	if p == nil {
		p = h.touch(index >> pageBits)
	}
	p[index%pageBins]++
	t := &h.totals
	t.count++
	t.sum = t.sum.Add(Uint128{Low: u})
	t.squares = t.squares.Add(product(u, u))
	if u < t.min {
		t.min = u
	}
	if u > t.max {
		t.max = u
	}
}

// RecordN counts a value n times. It panics if the histogram would hold more than 2^44 values.
func (h *Histogram) RecordN(v int64, n uint64) {
	if n == 0 {
		return
	}
	u := h.geometry.clamp(v)
	t, ok := h.totals.plus(totals{count: n, sum: product(u, n), squares: product(u, u).scale(n), min: u, max: u})
	if !ok {
		panic(ErrFull)
	}
	index := h.geometry.index(u)
	h.touch(index >> pageBits)[index%pageBins] += n
	h.totals = t
}

// touch returns a page. It allocates the page if necessary.
func (h *Histogram) touch(i int) *page {
	if h.pages[i] == nil {
		h.pages[i] = new(page)
	}
	return h.pages[i]
}

// Merge adds all values of o, exactly. It returns an error, and changes nothing, if the layouts differ, and ErrFull if
// there would be too many values. Its cost is proportional to o's used range of bins.
func (h *Histogram) Merge(o *Histogram) error {
	if h.layout != o.layout {
		return mixed(o.layout, h.layout)
	}
	merged, ok := h.totals.plus(o.totals)
	if !ok {
		return ErrFull
	}
	first, last := o.used()
	for i := first >> pageBits; i<<pageBits <= last; i++ {
		if from := o.pages[i]; from != nil {
			low, high := max(first-i<<pageBits, 0), min(last-i<<pageBits, pageBins-1)
			h.touch(i).add(from, low, high)
		}
	}
	h.totals = merged
	return nil
}

// mixed returns the error for different layouts.
func mixed(from, into Layout) error {
	return fmt.Errorf("histogram: cannot merge %v into %v: their bins differ", from, into)
}

// add adds the bins from low to high of another page.
func (p *page) add(from *page, low, high int) {
	into := p[low : high+1]
	for i, n := range from[low : high+1] {
		into[i] += n
	}
}

// used returns the first and the last bin with values. Without values last is less than first.
func (h *Histogram) used() (first, last int) {
	if h.totals.count == 0 {
		return 0, -1
	}
	return h.geometry.index(h.totals.min), h.geometry.index(h.totals.max)
}

// bins yields each bin that holds values with its count, in ascending order.
func (h *Histogram) bins(yield func(index int, count uint64) bool) {
	first, last := h.used()
	for i := first >> pageBits; i<<pageBits <= last; i++ {
		if h.pages[i] == nil {
			continue
		}
		low, high := max(first-i<<pageBits, 0), min(last-i<<pageBits, pageBins-1)
		for j, n := range h.pages[i][low : high+1] {
			if n != 0 && !yield(i<<pageBits+low+j, n) {
				return
			}
		}
	}
}

// Counts yields the highest value of each bin that holds values, and how many it holds, in ascending order.
func (h *Histogram) Counts(yield func(high int64, count uint64) bool) {
	for index, n := range h.bins {
		_, high := h.geometry.span(index)
		if !yield(int64(min(high, h.totals.max)), n) {
			return
		}
	}
}

// Reset removes all values and keeps the memory for new ones.
func (h *Histogram) Reset() {
	first, last := h.used()
	for i := first >> pageBits; i<<pageBits <= last; i++ {
		if h.pages[i] != nil {
			*h.pages[i] = page{}
		}
	}
	h.totals = none
}
