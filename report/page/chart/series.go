package chart

import (
	"cmp"
	"html/template"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Style is how a series looks. Series differ in colour and in marker, so that no reader needs to tell colours apart.
type Style struct {
	// Number of the series in its chart, from 0: it decides about colour and marker. Series of one number are shown and
	// hidden together.
	Number int
	// Of is how many steps an ordered scale of colours has, of which Number is one. 0: the colours have no order.
	Of int
	// Dashed draws the line dashed.
	Dashed bool
}

// colours is how many colours the style sheet has for names (s0, s1, ...) and for an ordered scale (q0, q1, ...).
const colours = 8

// glyphs are the markers, by number of the colour.
var glyphs = []draw.GlyphDrawer{
	draw.CircleGlyph{}, draw.SquareGlyph{}, draw.PyramidGlyph{}, diamond{}, draw.BoxGlyph{}, draw.RingGlyph{},
	draw.TriangleGlyph{}, draw.PlusGlyph{},
}

// dashes are the patterns of dashed lines.
var dashes = []vg.Length{5, 4}

// ink returns the series' colour.
func (s Style) ink() ink {
	if s.Of > 0 {
		return ink("q" + strconv.Itoa((s.Number*(colours-1)+(s.Of-1)/2)/max(s.Of-1, 1)))
	}
	return ink("s" + strconv.Itoa(s.Number%colours))
}

// line returns the series' line.
func (s Style) line() draw.LineStyle {
	l := draw.LineStyle{Color: s.ink(), Width: 2}
	if s.Dashed {
		l.Dashes = dashes
	}
	return l
}

// marker draws the series' marker.
func (s Style) marker(c *draw.Canvas, at vg.Point, doubt Doubt) {
	style := draw.GlyphStyle{Color: s.ink(), Radius: 4, Shape: glyphs[(s.Number+s.Number/colours)%len(glyphs)]}
	switch doubt {
	case Sound:
	case Suspect:
		style.Shape, style.Radius = draw.RingGlyph{}, 5
	case Invalid:
		style.Shape, style.Radius = draw.CrossGlyph{}, 6
	}
	c.DrawGlyph(style, at)
}

// Swatch returns the style as a small svg element for a legend. It has no accessible name: the legend has the words.
func (s Style) Swatch() template.HTML {
	to := newCanvas(28, 12)
	c := draw.NewCanvas(to, 28, 12)
	c.StrokeLine2(s.line(), 1, 6, 27, 6)
	if s.Of == 0 {
		s.marker(&c, vg.Point{X: 14, Y: 6}, Sound)
	}
	return template.HTML( //nolint:gosec // it has no text
		`<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true" focusable="false">` + to.String() + "</svg>")
}

// Square returns the colour as a small svg element for a legend, without an accessible name.
func (s Style) Square() template.HTML {
	return template.HTML(`<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true" focusable="false">` + //nolint:gosec // it has no text
		`<path class="f ` + string(s.ink()) + `" d="M8 0h12v12h-12z"/></svg>`)
}

// outside reports whether a point has no place on a logarithmic axis.
func (c Chart) outside(p Point) bool { return c.X.Log && p.X <= 0 || c.Y.Log && p.Y <= 0 }

// series draws a series.
func (c Chart) series(f frame, s Series) {
	f.to.open("k"+strconv.Itoa(s.Number), "")
	defer f.to.close()
	for _, line := range s.Lines {
		var places []vg.Point
		for _, p := range line {
			if c.outside(p) {
				continue
			}
			places = append(places, f.at(p.X, p.Y))
		}
		if s.Area && len(places) > 0 {
			s.fill(f, places)
		}
		f.area.StrokeLines(s.line(), f.area.ClipLinesXY(places)...)
		c.markers(f, s, line)
	}
}

// fill fills what is between a line and the lower end of the axis.
func (s Series) fill(f frame, places []vg.Point) {
	ground := f.y(max(f.plot.Y.Min, 0))
	outline := append([]vg.Point{{X: places[0].X, Y: ground}}, places...)
	outline = append(outline, vg.Point{X: places[len(places)-1].X, Y: ground})
	f.to.open("area", "")
	f.area.FillPolygon(s.ink(), outline)
	f.to.close()
}

// markers draws the markers of a line, equal ones one after the other.
func (c Chart) markers(f frame, s Series, line []Point) {
	line = slices.SortedStableFunc(slices.Values(line), func(a, b Point) int { return cmp.Compare(a.Doubt, b.Doubt) })
	for _, p := range line {
		if p.Title == "" || c.outside(p) {
			continue
		}
		if !c.Plain {
			f.to.open("p", p.Title)
		}
		s.marker(&f.area, f.at(p.X, p.Y), p.Doubt)
		if !c.Plain {
			f.to.close()
		}
	}
}

// notes writes the labels of all series' points above the series. A label that would cover an earlier one is left
// out.
func (c Chart) notes(f frame) {
	var written []vg.Point
	f.to.SetColor(ink("note"))
	for _, s := range c.Series {
		for _, line := range s.Lines {
			for _, p := range line {
				if p.Label == "" || c.outside(p) {
					continue
				}
				at, width := f.at(p.X, p.Y).Add(vg.Point{Y: 8}), vg.Length(7*len(p.Label))
				at.X = max(min(at.X, f.to.width-width/2), width/2) // within the chart
				if slices.ContainsFunc(written, func(q vg.Point) bool {
					return math.Abs(float64(q.X-at.X)) < float64(width) &&
						math.Abs(float64(q.Y-at.Y)) < textSize
				}) {
					continue
				}
				written = append(written, at)
				f.to.text(at, "middle", p.Label)
			}
		}
	}
}

// diamond is a filled square that stands on a corner.
type diamond struct{}

// DrawGlyph implements draw.GlyphDrawer.
func (diamond) DrawGlyph(c *draw.Canvas, style draw.GlyphStyle, at vg.Point) {
	r := style.Radius * 1.2
	c.FillPolygon(style.Color, []vg.Point{
		{X: at.X - r, Y: at.Y}, {X: at.X, Y: at.Y + r}, {X: at.X + r, Y: at.Y}, {X: at.X, Y: at.Y - r},
	})
}
