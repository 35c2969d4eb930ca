package chart

import (
	"cmp"
	"fmt"
	"html"
	"html/template"
	"slices"
)

// Chart is one chart, with a horizontal and a vertical axis.
type Chart struct {
	// Label is the chart's accessible name. Description says what it shows, for people who cannot see it.
	Label, Description string
	// Width and Height are in CSS pixels.
	Width, Height float64
	// Left is the least space left of the vertical axis, for charts below each other whose axes are to meet.
	Left float64
	// Limit is a line across the chart. Nil: it has none.
	Limit *Limit
	// Typed says, for the page's script, of what a limit that a reader types is a line: "TTFT", or "TPOT inverse" if
	// values are 1000 / TPOT in ms. Empty: of nothing.
	Typed string
	// X and Y are the axes.
	X, Y Axis
	// Series are drawn in their order, above Layers.
	Series []Series
	// Layers are what else is drawn.
	Layers []Layer
}

// Limit is a value of the vertical axis that values should be above or below of, with its words.
type Limit struct {
	Y     float64
	Label string
}

// Axis is an axis. Its range is that of its values, unless Min and Max are given.
type Axis struct {
	// Label stands below a horizontal axis. A vertical axis has none: its unit belongs into the chart's caption.
	Label string
	// Log makes the scale logarithmic. Values of 0 and below are then not drawn.
	Log bool
	// Zero makes a linear axis begin at 0.
	Zero bool
	// Min and Max are the range. If they are equal, the range is that of the values.
	Min, Max float64
	// Ticks are the marks. Empty: round numbers.
	Ticks []Tick
}

// Tick is a mark at an axis. One without a label is short.
type Tick struct {
	Value float64
	Label string
}

// Series is a line with its points.
type Series struct {
	// Style selects colour, marker and dashes.
	Style
	// Lines has the points of the series. Points of different lines are not connected.
	Lines [][]Point
	// Name is written at the end of the line.
	Name string
	// Area fills what is between the line and 0.
	Area bool
	// Steps draws the line in steps: a value holds until the next one.
	Steps bool
	// Shift moves points without markers sideways, such as intervals that would cover each other, in CSS pixels.
	Shift float64
}

// trusted reports whether the points that count for the axes include the doubtful ones: others are too few.
func (s Series) trusted() bool {
	points := slices.Concat(s.Lines...)
	all := len(points)
	return 2*len(slices.DeleteFunc(points, func(p Point) bool { return p.Doubt == Sound })) > all
}

// Point is a point of a series.
type Point struct {
	X, Y float64
	// Title is shown to people who point at it. A point without a title has no marker.
	Title string
	// Label is written beside the point.
	Label string
	// Doubt is how much the point can be believed.
	Doubt Doubt
	// Data is an attribute of the point for the page's script. Empty: there is none.
	Data string
}

// Doubt is whether a point is marked because its measurement is in doubt.
type Doubt int

// Kinds of doubt.
const (
	// Sound points have a marker.
	Sound Doubt = iota
	// Suspect points have a ring around it.
	Suspect
	// Invalid points have two.
	Invalid
)

// Layer is a part of a chart other than a series.
type Layer interface {
	// bounds returns the ranges of the layer's values: nothing if it does not extend an axis.
	bounds() (x, y extent)
	// draw draws the layer.
	draw(f frame)
}

// frame is the area in which a chart shows its values: from left to right, and from top to bottom.
type frame struct {
	to                       *canvas
	x, y                     scale
	left, right, top, bottom float64
	width                    float64 // of the chart
}

// at returns the place of a point.
func (f frame) at(x, y float64) place { return place{f.x.at(x), f.y.at(y)} }

// holds reports whether a point has a place in the frame.
func (f frame) holds(p Point) bool { return f.x.holds(p.X) && f.y.holds(p.Y) }

// show returns where a point is drawn: a doubtful one beyond the border at the border, with its direction.
func (f frame) show(p Point) (at, beyond place, drawn bool) {
	if f.holds(p) {
		return f.at(p.X, p.Y), beyond, true
	}
	if p.Doubt == Sound || f.x.log && p.X <= 0 || f.y.log && p.Y <= 0 {
		return at, beyond, false
	}
	x, y := max(min(p.X, f.x.high), f.x.low), max(min(p.Y, f.y.high), f.y.low)
	return f.at(x, y), place{float64(cmp.Compare(p.X, x)), float64(cmp.Compare(y, p.Y))}, true
}

// margin is the space at the edges, for labels that are wider in the reader's font than was estimated.
const margin = 16

// tick is the length of a mark with a label.
const tick = 4

// SVG returns the chart as an svg element.
func (c Chart) SVG() template.HTML {
	f := c.frame()
	c.axes(f)
	for _, l := range c.Layers {
		l.draw(f)
	}
	words := c.limit(f)
	for _, l := range c.Layers {
		if m, ok := l.(Marks); ok && slices.ContainsFunc(m, func(m Mark) bool { return m.Label != "" }) {
			words = append(words, box{place{c.Width / 2, f.top - textSize/2}, c.Width, textSize})
		}
	}
	for _, s := range c.Series {
		c.series(f, s)
	}
	c.notes(f, words)
	typed := ""
	if c.Typed != "" {
		typed = fmt.Sprintf(` data-limit="%s %g %g %g %g %g %g %t"`, c.Typed, f.y.low, f.y.high, f.bottom, f.top, f.left,
			f.right, f.y.log)
	}
	open := `<svg viewBox="0 0 ` + number(c.Width) + " " + number(c.Height) + `" role="img"` + typed + ` aria-label="` +
		html.EscapeString(c.Label) + `"><desc>` + html.EscapeString(c.Description) + `</desc>`
	return template.HTML(open + f.to.String() + "</svg>") //nolint:gosec // every text in it was escaped
}

// frame lays the chart out: labels left of the vertical axis and below the horizontal one.
func (c Chart) frame() frame {
	x, y := c.bounds()
	f := frame{to: &canvas{}, x: c.X.scale(x.low, x.high), y: c.Y.scale(y.low, y.high), width: c.Width}
	widest := 0.0
	for _, t := range f.y.ticks {
		widest = max(widest, textWidth(t.Label))
	}
	f.left, f.right = max(margin+widest+2+tick, c.Left), c.Width-2*margin
	f.top, f.bottom = margin, c.Height-textSize-2*tick
	if c.X.Label != "" {
		f.bottom -= textSize + tick
	}
	f.x.from, f.x.to = f.left, f.right
	f.y.from, f.y.to = f.bottom, f.top
	return f
}

// axes draws both axes, and a line across the chart at each labelled tick of the vertical one. Strokes of one kind
// follow each other, because they are then one element.
func (c Chart) axes(f frame) {
	axis := line{ink: "axis", width: 1}
	across := slices.DeleteFunc(f.x.thinned(), func(t Tick) bool { return !f.x.holds(t.Value) })
	up := slices.DeleteFunc(slices.Clone(f.y.ticks), func(t Tick) bool { return !f.y.holds(t.Value) })
	for _, t := range up {
		if t.Label != "" {
			f.to.stroke(line{ink: "grid", width: 1}, place{f.left, f.y.at(t.Value)}, place{f.right, f.y.at(t.Value)})
		}
	}
	for _, t := range up {
		f.to.stroke(axis, place{f.left - t.length(), f.y.at(t.Value)}, place{f.left, f.y.at(t.Value)})
	}
	for _, t := range across {
		f.to.stroke(axis, place{f.x.at(t.Value), f.bottom}, place{f.x.at(t.Value), f.bottom + t.length()})
	}
	f.to.stroke(axis, place{f.left, f.top}, place{f.left, f.bottom}, place{f.right, f.bottom})
	for _, t := range up {
		f.to.text("ink", place{f.left - tick - 2, f.y.at(t.Value) + textSize/3.0}, "end", t.Label)
	}
	for _, t := range across {
		half := textWidth(t.Label)/2 + 2*tick // a wide label at an end of the axis stays in the picture
		x := max(min(f.x.at(t.Value), c.Width-half), half)
		f.to.text("ink", place{x, f.bottom + tick + textSize}, "middle", t.Label)
	}
	f.to.text("ink", place{(f.left + f.right) / 2, c.Height - tick}, "middle", c.X.Label)
}

// length is that of a mark: one without a label is half as long.
func (t Tick) length() float64 {
	if t.Label == "" {
		return tick / 2
	}
	return tick
}

// Range returns the range of the values that count for the vertical axis: low is above high if there are none.
func (c Chart) Range() (low, high float64) {
	c.Limit = nil
	_, y := c.bounds()
	return y.low, y.high
}

// limit draws the chart's limit, and returns where its words are.
func (c Chart) limit(f frame) (words []box) {
	if c.Limit == nil {
		return nil
	}
	y, width := f.y.at(c.Limit.Y), textWidth(c.Limit.Label)
	f.to.open("limit", "")
	f.to.stroke(line{ink: "axis", width: 1.5, dashed: true}, place{f.left, y}, place{f.right, y})
	f.to.text("ink", place{f.left + tick, y - tick}, "", c.Limit.Label)
	f.to.close()
	return []box{{place{f.left + tick + width/2, y - 2*tick}, width, textSize}}
}

// bounds returns the ranges of the values that count for the axes. Doubtful points count where a series has few others,
// and otherwise only near the range of those.
func (c Chart) bounds() (x, y extent) {
	x, y = nothing, nothing
	var doubtful []Point
	for _, s := range c.Series {
		trusted := s.trusted()
		for _, p := range slices.Concat(s.Lines...) {
			switch {
			case c.X.Log && p.X <= 0 || c.Y.Log && p.Y <= 0:
			case p.Doubt == Sound || trusted:
				x, y = x.with(p.X), y.with(p.Y)
			default:
				doubtful = append(doubtful, p)
			}
		}
	}
	for _, l := range c.Layers {
		across, up := l.bounds()
		x, y = x.join(across), y.join(up)
	}
	if c.Limit != nil {
		y = y.with(c.Limit.Y)
	}
	nearX, nearY := c.X.near(x), c.Y.near(y)
	for _, p := range doubtful {
		if nearX.holds(p.X) {
			x = x.with(p.X)
		}
		if nearY.holds(p.Y) {
			y = y.with(p.Y)
		}
	}
	return x, y
}
