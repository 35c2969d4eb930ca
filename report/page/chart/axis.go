package chart

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// textSize is the size of labels, in CSS pixels.
const textSize = 12

// apply sets up an axis of the library for values from low to high.
func (a Axis) apply(to *plot.Axis, low, high float64, handler text.Handler) {
	low, high = a.span(low, high)
	ticks := a.Ticks
	if len(ticks) == 0 {
		low, high, ticks = a.round(low, high)
	}
	to.Min, to.Max = low, high
	to.Padding = 0
	to.Color, to.Tick.Color = ink("axis"), ink("axis")
	to.Width, to.Tick.Width, to.Tick.Length = 1, 1, 4
	for _, style := range []*text.Style{&to.Tick.Label, &to.Label.TextStyle} {
		style.Handler, style.Color, style.Font = handler, ink("ink"), font.From(plot.DefaultFont, textSize)
	}
	to.Label.Text, to.Label.Padding = a.Label, 4
	to.Scale = plot.LinearScale{}
	if a.Log {
		to.Scale = plot.LogScale{}
	}
	marks := plot.ConstantTicks{}
	for _, t := range ticks {
		marks = append(marks, plot.Tick{Value: t.Value, Label: t.Label})
	}
	to.Tick.Marker = marks
}

// besideAxis is about the space that a chart has left and right of its horizontal axis, and labelGap the least space
// between two labels of it.
const besideAxis, labelGap = 100, 5

// thin takes the labels from ticks of a horizontal axis, of about the given length, that would run into the label
// before them.
func thin(axis *plot.Axis, length vg.Length) {
	free := vg.Length(math.Inf(-1)) // from where on there is space
	ticks := axis.Tick.Marker.Ticks(axis.Min, axis.Max)
	for i, t := range ticks {
		at, half := vg.Length(axis.Norm(t.Value))*length, axis.Tick.Label.Width(t.Label)/2
		switch {
		case t.IsMinor():
		case at-half < free:
			ticks[i].Label = ""
		default:
			free = at + half + labelGap
		}
	}
	axis.Tick.Marker = plot.ConstantTicks(ticks)
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
	for _, v := range values {
		ticks = append(ticks, Tick{v, Number(v)})
	}
	return ticks
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
	digits := strconv.FormatFloat(math.Abs(v), 'f', 0, 64)
	var b strings.Builder
	if v < 0 {
		b.WriteByte('-')
	}
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// sensible rounds to three significant digits.
func sensible(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 3, 64), 64) // it has just been formatted
	return r
}
