package histogram

import (
	"errors"
	"math"
)

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
