package chart

import (
	"cmp"
	"html/template"
	"math"
	"slices"
	"strconv"
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

// glyph is a marker: a filled or empty polygon of corners, in radii from its centre, or without corners a circle.
type glyph struct {
	corners []place
	empty   bool
}

// glyphs are the markers, by number of the colour.
var glyphs = []glyph{
	{},
	{corners: square},
	{corners: []place{{-1, 0.8}, {0, -1}, {1, 0.8}}},
	{corners: []place{{-1.2, 0}, {0, -1.2}, {1.2, 0}, {0, 1.2}}},
	{corners: square, empty: true},
	{empty: true},
	{corners: []place{{-1, 0.8}, {0, -1}, {1, 0.8}}, empty: true},
	{corners: []place{{-0.3, -1}, {0.3, -1}, {0.3, -0.3}, {1, -0.3}, {1, 0.3}, {0.3, 0.3}, {0.3, 1}, {-0.3, 1},
		{-0.3, 0.3}, {-1, 0.3}, {-1, -0.3}, {-0.3, -0.3}}},
}

var square = []place{{-0.9, -0.9}, {0.9, -0.9}, {0.9, 0.9}, {-0.9, 0.9}}

// draw draws a marker.
func (g glyph) draw(to *canvas, i ink, at place, r float64) {
	element := filled(i)
	if g.empty {
		element = line{ink: i, width: 1}.element()
	}
	if g.corners == nil {
		to.circle(element, at, r)
		return
	}
	var corners []place
	for _, c := range g.corners {
		corners = append(corners, place{at.x + c.x*r, at.y + c.y*r})
	}
	to.path(element, corners, "z")
}

// ink returns the series' colour.
func (s Style) ink() ink {
	if s.Of > 0 {
		return ink("q" + strconv.Itoa((s.Number*(colours-1)+(s.Of-1)/2)/max(s.Of-1, 1)))
	}
	return ink("s" + strconv.Itoa(s.Number%colours))
}

// line returns the series' line.
func (s Style) line() line { return line{ink: s.ink(), width: 2, dashed: s.Dashed} }

// marker draws the series' marker.
func (s Style) marker(to *canvas, at place, doubt Doubt) {
	switch doubt {
	case Sound:
		glyphs[(s.Number+s.Number/colours)%len(glyphs)].draw(to, s.ink(), at, 4)
	case Suspect:
		glyph{empty: true}.draw(to, s.ink(), at, 5)
	case Invalid:
		l := line{ink: s.ink(), width: 1}
		const r = 4.2
		to.stroke(l, place{at.x - r, at.y - r}, place{at.x + r, at.y + r})
		to.stroke(l, place{at.x - r, at.y + r}, place{at.x + r, at.y - r})
	}
}

// Swatch returns the style as a small svg element for a legend. It has no accessible name: the legend has the words.
func (s Style) Swatch() template.HTML {
	to := &canvas{}
	to.stroke(s.line(), place{1, 6}, place{27, 6})
	if s.Of == 0 {
		s.marker(to, place{14, 6}, Sound)
	}
	return template.HTML( //nolint:gosec // it has no text
		`<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true" focusable="false">` + to.String() + "</svg>")
}

// Square returns the colour as a small svg element for a legend, without an accessible name.
func (s Style) Square() template.HTML {
	return template.HTML(`<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true" focusable="false">` + //nolint:gosec // it has no text
		`<path class="f ` + string(s.ink()) + `" d="M8 0h12v12h-12z"/></svg>`)
}

// series draws a series.
func (c Chart) series(f frame, s Series) {
	f.to.open("k"+strconv.Itoa(s.Number), "")
	defer f.to.close()
	for _, line := range s.Lines {
		var places []place
		for _, p := range line {
			if f.holds(p) {
				places = append(places, f.at(p.X, p.Y))
			}
		}
		if s.Area && len(places) > 0 {
			s.fill(f, places)
		}
		f.to.stroke(s.line(), places...)
		c.markers(f, s, line)
	}
}

// fill fills what is between a line and the lower end of the axis.
func (s Series) fill(f frame, places []place) {
	f.to.open("area", "")
	outline := append([]place{{places[0].x, f.bottom}}, places...)
	f.to.fill(s.ink(), append(outline, place{places[len(places)-1].x, f.bottom})...)
	f.to.close()
}

// markers draws the markers of a line, equal ones one after the other.
func (c Chart) markers(f frame, s Series, line []Point) {
	line = slices.SortedStableFunc(slices.Values(line), func(a, b Point) int { return cmp.Compare(a.Doubt, b.Doubt) })
	for _, p := range line {
		if p.Title == "" || !f.holds(p) {
			continue
		}
		if !c.Plain {
			f.to.open("p", p.Title)
		}
		s.marker(f.to, f.at(p.X, p.Y), p.Doubt)
		if !c.Plain {
			f.to.close()
		}
	}
}

// notes writes the labels of all series' points above the series. A label that would cover an earlier one is left
// out.
func (c Chart) notes(f frame) {
	var written []place
	for _, s := range c.Series {
		for _, line := range s.Lines {
			for _, p := range line {
				if p.Label == "" || !f.holds(p) {
					continue
				}
				at, width := f.at(p.X, p.Y), float64(7*len(p.Label))
				at.x, at.y = max(min(at.x, f.width-width/2), width/2), at.y-8 // within the chart
				if !slices.ContainsFunc(written, func(q place) bool {
					return math.Abs(q.x-at.x) < width && math.Abs(q.y-at.y) < textSize
				}) {
					written = append(written, at)
					f.to.text("note", at, "middle", p.Label)
				}
			}
		}
	}
}
