package chart

import (
	"math"
	"strconv"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// scale is an axis with its range and its place.
type scale struct {
	extent
	log      bool
	ticks    []Tick
	from, to float64 // where low and high are, in CSS pixels
}

// scale returns the axis for values from low to high.
func (a Axis) scale(low, high float64) scale {
	s := scale{log: a.Log, ticks: a.Ticks}
	s.low, s.high = a.span(low, high)
	if len(s.ticks) == 0 {
		s.low, s.high, s.ticks = a.round(s.low, s.high)
	}
	return s
}

// extent is a range of values.
type extent struct{ low, high float64 }

// nothing is the range of no values.
var nothing = extent{math.Inf(1), math.Inf(-1)}

// with returns the range with one more value.
func (e extent) with(v float64) extent { return extent{min(e.low, v), max(e.high, v)} }

// join returns the range of both.
func (e extent) join(o extent) extent { return extent{min(e.low, o.low), max(e.high, o.high)} }

// holds reports whether a value is in the range.
func (e extent) holds(v float64) bool { return v >= e.low && v <= e.high }

// near returns a range of values with half as much at both ends, and without end of a single value.
func (a Axis) near(e extent) extent {
	low, high := a.span(e.low, e.high)
	if e.low == e.high {
		return extent{math.Inf(-1), math.Inf(1)}
	}
	if a.Log {
		by := math.Sqrt(high / low)
		return extent{low / by, high * by}
	}
	return extent{low - (high-low)/2, high + (high-low)/2}
}

// at returns the place of a value.
func (s scale) at(v float64) float64 {
	share := (v - s.low) / (s.high - s.low)
	if s.log {
		share = math.Log(v/s.low) / math.Log(s.high/s.low)
	}
	return s.from + share*(s.to-s.from)
}

// labelGap is the least space between two labels of a horizontal axis.
const labelGap = 5

// thinned returns the ticks of a horizontal axis. Those whose labels would run into the label before them have none.
func (s scale) thinned() (ticks []Tick) {
	free := math.Inf(-1) // from where on there is space
	for _, t := range s.ticks {
		at, half := s.at(t.Value), textWidth(t.Label)/2
		switch {
		case t.Label == "":
		case at-half < free:
			t.Label = ""
		default:
			free = at + half + labelGap
		}
		ticks = append(ticks, t)
	}
	return ticks
}

// span returns a range that can be drawn, and that holds all values.
func (a Axis) span(low, high float64) (float64, float64) {
	if a.Min != a.Max {
		return a.Min, a.Max
	}
	if low > high { // no values
		low, high = 1, 2
	}
	if a.Zero && !a.Log {
		low, high = min(low, 0), max(high, 0)
	}
	if low == high {
		switch {
		case a.Log:
			low, high = low/2, high*2
		case low == 0:
			high = 1
		default:
			low, high = low-math.Abs(low)/10, high+math.Abs(high)/10
		}
	}
	return low, high
}

// round returns a range that ends at round numbers, and these numbers.
func (a Axis) round(low, high float64) (float64, float64, []Tick) {
	if a.Log && high > 4*low {
		return logTicks(low, high)
	}
	step := niceStep((high - low) / 5)
	if a.Log && low < step { // there is no 0 on a logarithmic axis
		return logTicks(low, high)
	}
	first, last := math.Floor(low/step+1e-9), math.Ceil(high/step-1e-9)
	var ticks []Tick
	for i := first; i <= last; i++ {
		ticks = append(ticks, Tick{i * step, Number(i * step)})
	}
	return first * step, last * step, ticks
}

// TicksAt returns ticks at values, with their numbers.
func TicksAt(values ...float64) (ticks []Tick) {
	return lists.Each(values, func(v float64) Tick { return Tick{v, Number(v)} })
}

// RoundTicks returns ticks at round numbers from 0 to end.
func RoundTicks(end float64) []Tick {
	step := niceStep(end / 10)
	var ticks []Tick
	for v := 0.0; v <= end; v += step {
		ticks = append(ticks, Tick{v, Number(v)})
	}
	return ticks
}

// niceStep returns the smallest of 1, 2 and 5 times a power of ten that is at least v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= v*(1-1e-9) {
			return m * power
		}
	}
	return 10 * power
}

// logTicks returns a range between ticks of 1, 2 and 5 times powers of ten, and the ticks. Over several decades only
// the powers of ten have labels.
func logTicks(low, high float64) (from, to float64, ticks []Tick) {
	first, last := int(math.Floor(math.Log10(low)+1e-9)), int(math.Ceil(math.Log10(high)-1e-9))
	from, to = math.Pow10(first), math.Pow10(last)
	var all []float64
	for e := first; e <= last; e++ {
		for _, m := range []float64{1, 2, 5} {
			v := m * math.Pow10(e)
			all = append(all, v)
			if v <= low*(1+1e-9) {
				from = max(from, v)
			}
			if v >= high*(1-1e-9) {
				to = min(to, v)
			}
		}
	}
	decades := math.Log10(to / from)
	for i, v := range all {
		if v < from || v > to {
			continue
		}
		label := Number(v)
		if decades > 2.5 && i%3 != 0 {
			label = ""
		}
		ticks = append(ticks, Tick{v, label})
	}
	return from, to, ticks
}

// Number formats a number for a reader: with three significant digits below 1000, and a comma after every third digit
// from 1000 up.
func Number(v float64) string {
	if math.Abs(v) < 1000 {
		return strconv.FormatFloat(sensible(v), 'f', -1, 64)
	}
	sign := ""
	if v < 0 {
		sign = "-"
	}
	return sign + words.Thousands(uint64(math.RoundToEven(math.Abs(v))))
}

// sensible rounds to three significant digits.
func sensible(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // it has just been formatted
	return r
}
