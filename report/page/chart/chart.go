package chart

import (
	"html"
	"html/template"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Chart is one chart, with a horizontal and a vertical axis.
type Chart struct {
	// Label is the chart's accessible name. Description says what it shows, for people who cannot see it.
	Label, Description string
	// Width and Height are in CSS pixels.
	Width, Height float64
	// Plain charts are small: people who point at a marker learn nothing more.
	Plain bool
	// X and Y are the axes.
	X, Y Axis
	// Series are drawn in their order, above Layers.
	Series []Series
	// Layers are what else is drawn.
	Layers []Layer
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
	// Area fills what is between the line and 0.
	Area bool
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
}

// Doubt is whether a point is marked because its measurement is in doubt.
type Doubt int

// Kinds of doubt.
const (
	// Sound points have filled markers.
	Sound Doubt = iota
	// Suspect points have hollow markers.
	Suspect
	// Invalid points are crossed out.
	Invalid
)

// Layer is a part of a chart other than a series.
type Layer interface {
	// bounds returns the range of the layer's values, or false if it does not extend the axes.
	bounds() (x0, x1, y0, y1 float64, extends bool)
	// draw draws the layer.
	draw(f frame)
}

// frame is the area in which a chart shows its values.
type frame struct {
	to   *canvas
	area draw.Canvas
	x, y func(float64) vg.Length
	plot *plot.Plot
}

// at returns the place of a point.
func (f frame) at(x, y float64) vg.Point { return vg.Point{X: f.x(x), Y: f.y(y)} }

// margin is the space at the edges for labels that are wider in the reader's font than the library measures.
const margin = 16

// SVG returns the chart as an svg element.
func (c Chart) SVG() template.HTML {
	to := newCanvas(vg.Length(c.Width), vg.Length(c.Height))
	p := c.plot(to)
	p.Draw(draw.Crop(draw.NewCanvas(to, to.width, to.height), margin, -2*margin, 2, -margin))
	open := `<svg viewBox="0 0 ` + number(c.Width) + " " + number(c.Height) + `" role="img" aria-label="` +
		html.EscapeString(c.Label) + `"><desc>` + html.EscapeString(c.Description) + `</desc>`
	return template.HTML(open + to.String() + "</svg>") //nolint:gosec // every text in it was escaped
}

// plot returns the chart as the library's plot.
func (c Chart) plot(to *canvas) *plot.Plot {
	p := plot.New()
	handler := labels{text.Plain{Fonts: font.DefaultCache}, to}
	p.TextHandler, p.BackgroundColor = handler, nil
	p.Title.TextStyle.Handler = handler
	x0, x1, y0, y1 := c.bounds()
	c.X.apply(&p.X, x0, x1, handler)
	thin(&p.X, vg.Length(c.Width-besideAxis))
	c.Y.apply(&p.Y, y0, y1, handler)
	p.Y.Label.Text = ""
	p.Add(grid{})
	for _, l := range c.Layers {
		p.Add(plotter{to, l.draw})
	}
	for _, s := range c.Series {
		p.Add(plotter{to, func(f frame) { c.series(f, s) }})
	}
	p.Add(plotter{to, c.notes})
	return p
}

// bounds returns the range of all values that can be shown.
func (c Chart) bounds() (x0, x1, y0, y1 float64) {
	x0, x1, y0, y1 = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range c.Series {
		for _, line := range s.Lines {
			for _, p := range line {
				if c.X.Log && p.X <= 0 || c.Y.Log && p.Y <= 0 {
					continue
				}
				x0, x1, y0, y1 = min(x0, p.X), max(x1, p.X), min(y0, p.Y), max(y1, p.Y)
			}
		}
	}
	for _, l := range c.Layers {
		if a, b, low, high, extends := l.bounds(); extends {
			x0, x1, y0, y1 = min(x0, a), max(x1, b), min(y0, low), max(y1, high)
		}
	}
	return x0, x1, y0, y1
}

// plotter is a part of a chart as a plot.Plotter.
type plotter struct {
	to   *canvas
	draw func(frame)
}

// Plot implements plot.Plotter.
func (d plotter) Plot(area draw.Canvas, p *plot.Plot) {
	f := frame{area: area, plot: p, to: d.to}
	f.x, f.y = p.Transforms(&area)
	d.draw(f)
}

// grid draws horizontal lines at the labelled ticks of the vertical axis.
type grid struct{}

// Plot implements plot.Plotter.
func (grid) Plot(area draw.Canvas, p *plot.Plot) {
	_, y := p.Transforms(&area)
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if !t.IsMinor() && t.Value >= p.Y.Min && t.Value <= p.Y.Max {
			area.StrokeLine2(draw.LineStyle{Color: ink("grid"), Width: 1}, area.Min.X, y(t.Value), area.Max.X,
				y(t.Value))
		}
	}
}
