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
	"math/bits"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
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
func New(l Layout) *Histogram { return &Histogram{geometry: &geometries[l], layout: l, totals: none} }

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
	t.min, t.max = min(t.min, u), max(t.max, u)
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

// Layout is the range and resolution of a histogram. Only histograms with the same layout can be merged.
type Layout uint8

const (
	// Times holds nanoseconds from 1 us to 1 h with 3 significant digits. Below 1 us the bins are 512 ns wide.
	Times Layout = iota
	// Counts holds whole numbers from 1 to 2^31 with 3 significant digits. Numbers up to 2047 have one bin each.
	Counts
)

// LayoutOf returns the layout of a metric: Times for metrics in nanoseconds, else Counts.
func LayoutOf(m spatev1.Metric) Layout {
	if measure.Of(m).Unit == measure.Nanoseconds {
		return Times
	}
	return Counts
}

// String names the layout.
func (l Layout) String() string { return [...]string{Times: "times", Counts: "counts"}[l] }

// The bins of HdrHistogram. 3 significant digits need 2 x 10^3 equal bins from 0 to a power of two, rounded up to 2048.
// Finer bins already cover the lower half, so each further power of two adds a page of 1024 bins.
const (
	digits   = 3
	binBits  = 11
	pageBits = binBits - 1
	pageBins = 1 << pageBits
	maxPages = 24
)

// geometry is a layout in HdrHistogram's terms.
type geometry struct {
	lowest  int64 // lowest discernible value
	highest int64 // highest trackable value
	unit    uint8 // log2 of the finest bin's width: the largest power of two not above lowest
	pages   int   // pages needed to reach highest: one for the lowest half, then one per power of two
}

var geometries = [...]geometry{
	Times:  {lowest: 1_000, highest: 3_600_000_000_000, unit: 9, pages: 24},
	Counts: {lowest: 1, highest: 1 << 31, unit: 0, pages: 23},
}

// clamp moves a value into the layout's range.
func (g *geometry) clamp(v int64) uint64 { return uint64(min(max(v, 0), g.highest)) }

// bins returns the number of bins.
func (g *geometry) bins() int { return g.pages * pageBins }

// index returns the bin of a value within the range. A value with k more bits than the finest 2048 bins cover loses its
// lowest k bits.
func (g *geometry) index(v uint64) int {
	shift := bits.Len64(v|g.finest()) - binBits
	return (shift-int(g.unit))<<pageBits + int(v>>(uint(shift)&63))
}

// finest returns the largest value with the finest resolution.
func (g *geometry) finest() uint64 { return 1<<((g.unit+binBits)&63) - 1 }

// span returns the smallest and the largest value of a bin.
func (g *geometry) span(index int) (low, high uint64) {
	above := max(index>>pageBits, 1) - 1 // pages above the finest two
	shift := uint(g.unit) + uint(above)
	low = uint64(index-above<<pageBits) << (shift & 63)
	return low, low + 1<<(shift&63) - 1
}

// errNotPart is returned by Subtract if o holds values that h does not.
var errNotPart = errors.New("histogram: values to subtract were never added")

// Subtract removes values that were merged before. The result is exact, except that Min and Max are then known only to
// the bin. It returns an error, and changes nothing, if the layouts differ or if o holds values that h does not.
func (h *Histogram) Subtract(o *Histogram) error {
	if h.layout != o.layout {
		return mixed(o.layout, h.layout)
	}
	for index, n := range o.bins {
		if p := h.pages[index>>pageBits]; p == nil || p[index%pageBins] < n {
			return errNotPart
		}
	}
	for index, n := range o.bins {
		h.pages[index>>pageBits][index%pageBins] -= n
	}
	h.totals.count -= o.totals.count
	h.totals.sum = h.totals.sum.sub(o.totals.sum)
	h.totals.squares = h.totals.squares.sub(o.totals.squares)
	h.narrow()
	return nil
}

// narrow adjusts the smallest and the largest value to the bins that still hold values.
func (h *Histogram) narrow() {
	if h.totals.count == 0 {
		h.totals = none
		return
	}
	lowest, highest := -1, 0
	for index := range h.bins {
		if lowest < 0 {
			lowest = index
		}
		highest = index
	}
	low, _ := h.geometry.span(lowest)
	_, high := h.geometry.span(highest)
	h.totals.min, h.totals.max = max(h.totals.min, low), min(h.totals.max, high)
}

// Quantile returns the quantile q, from 0 to 1, like numpy's percentile by default: it interpolates linearly between
// the two values next to rank q (n-1), counted from 0. It is NaN without values. As in Percentile, a value is the
// largest value of its bin.
func (h *Histogram) Quantile(q float64) float64 {
	n := h.totals.count
	if n == 0 {
		return math.NaN()
	}
	at := min(max(q, 0), 1) * float64(n-1)
	below := uint64(at)
	_, low := h.at(below + 1)
	_, high := h.at(below + 2)
	return float64(low) + float64(high-low)*(at-float64(below))
}
