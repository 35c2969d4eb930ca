package main

import (
	"math"
	"slices"
)

// Summary holds the compared numbers of a distribution, in milliseconds. A number that a tool does not report is nil.
type Summary struct {
	Mean *float64 `json:"mean"`
	P50  *float64 `json:"p50"`
	P99  *float64 `json:"p99"`
}

// summarize returns the summary of values, with nil numbers if there are none. Percentiles are interpolated linearly
// between the neighbouring values, as by default in NumPy and the tools in Python that use it.
func summarize(values []float64) Summary {
	if len(values) == 0 {
		return Summary{}
	}
	sorted := slices.Sorted(slices.Values(values))
	sum := 0.0
	for _, v := range sorted {
		sum += v
	}
	mean, p50, p99 := sum/float64(len(sorted)), quantile(sorted, 0.5), quantile(sorted, 0.99)
	return Summary{Mean: &mean, P50: &p50, P99: &p99}
}

// quantile returns the value at a share of sorted values.
func quantile(sorted []float64, share float64) float64 {
	at := share * float64(len(sorted)-1)
	low := int(math.Floor(at))
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}

// less returns s - t. A number is nil if it is nil in s or t.
func (s Summary) less(t Summary) Summary {
	return Summary{Mean: difference(s.Mean, t.Mean), P50: difference(s.P50, t.P50), P99: difference(s.P99, t.P99)}
}

func difference(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	d := *a - *b
	return &d
}

// median returns the median of the values that are not nil, or nil if there are none. For an even number of values it
// is the mean of the two in the middle.
func median(values []*float64) *float64 {
	var known []float64
	for _, v := range values {
		if v != nil {
			known = append(known, *v)
		}
	}
	if len(known) == 0 {
		return nil
	}
	slices.Sort(known)
	m := quantile(known, 0.5)
	return &m
}
