package chart

import (
	"cmp"
	"html/template"
	"math"
	"slices"
	"strconv"

	"github.com/spate-load/spate/internal/lists"
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
	// Failures gives the series the colour of failures, Past the grey of what was measured before.
	Failures, Past bool
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
	corners := lists.Each(g.corners, func(c place) place { return place{at.x + c.x*r, at.y + c.y*r} })
	to.path(element, corners, "z")
}

// ink returns the series' colour.
func (s Style) ink() ink {
	if s.Failures {
		return "event"
	}
	if s.Past {
		return "axis"
	}
	if s.Of > 0 {
		return ink("q" + strconv.Itoa((s.Number*(colours-1)+(s.Of-1)/2)/max(s.Of-1, 1)))
	}
	return ink("s" + strconv.Itoa(s.Number%colours))
}

// line returns the series' line.
func (s Style) line() line { return line{ink: s.ink(), width: 2, dashed: s.Dashed} }

// radius returns that of a marker, with its rings.
func radius(d Doubt) float64 { return 4 + 3*float64(d) }

// marker draws the series' marker, with a ring around it for each degree of doubt.
func (s Style) marker(to *canvas, at place, doubt Doubt) {
	glyphs[(s.Number+s.Number/colours)%len(glyphs)].draw(to, s.ink(), at, radius(Sound))
	for ring := range int(doubt) {
		glyph{empty: true}.draw(to, s.ink(), at, radius(Doubt(ring+1)))
	}
}

// Swatch returns the style as a small svg element for a legend. It has no accessible name: the legend has the words.
func (s Style) Swatch() template.HTML {
	to := &canvas{}
	if to.stroke(s.line(), place{1, 6}, place{27, 6}); s.Of == 0 {
		s.marker(to, place{14, 6}, Sound)
	}
	return template.HTML(`<svg class="swatch" viewBox="0 0 28 12" aria-hidden="true" focusable="false">` + //nolint:gosec // it has no text
		to.String() + "</svg>")
}

// series draws a series.
func (c Chart) series(f frame, s Series) {
	f.to.open("k"+strconv.Itoa(s.Number), "")
	defer f.to.close()
	for _, line := range s.Lines {
		var places []place
		for _, p := range line {
			if !f.holds(p) {
				continue
			}
			at := f.at(p.X, p.Y)
			if p.Title == "" {
				at.x += s.Shift
			}
			if n := len(places); s.Steps && n > 0 {
				places = append(places, place{at.x, places[n-1].y})
			}
			places = append(places, at)
		}
		if len(places) == 1 && line[0].Title == "" { // nothing else would show it
			at := places[0]
			places = []place{{at.x - 2, at.y}, {at.x + 2, at.y}}
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

// markers draws the markers of a line.
func (c Chart) markers(f frame, s Series, line []Point) {
	for _, p := range line {
		at, beyond, drawn := f.show(p)
		if p.Title == "" || !drawn {
			continue
		}
		f.to.open("p", p.Title, p.Data)
		f.to.hit(at)
		s.marker(f.to, at, p.Doubt)
		if beyond != (place{}) {
			f.arrow(s.ink(), at, beyond)
		}
		f.to.close()
	}
}

// arrow draws an arrowhead beside a place.
func (f frame) arrow(i ink, at, to place) {
	f.to.stroke(line{ink: i, width: 2}, place{at.x + 10*to.x - 4*to.y, at.y + 10*to.y + 4*to.x},
		place{at.x + 14*to.x, at.y + 14*to.y}, place{at.x + 10*to.x + 4*to.y, at.y + 10*to.y - 4*to.x})
}

// box is an area of a chart that is taken: its middle and its size.
type box struct {
	place
	width, height float64
}

// meets reports whether two boxes overlap.
func (b box) meets(o box) bool {
	return 2*math.Abs(b.x-o.x) < b.width+o.width && 2*math.Abs(b.y-o.y) < b.height+o.height
}

// along returns boxes along a line between two places.
func along(from, to place) (boxes []box) {
	const step = 6
	n := math.Ceil(math.Hypot(to.x-from.x, to.y-from.y) / step)
	for i := 1.0; i < n; i++ {
		at := place{from.x + (to.x-from.x)*i/n, from.y + (to.y-from.y)*i/n}
		boxes = append(boxes, box{at, step / 2, step / 2})
	}
	return boxes
}

// note is a text beside a place, free of which is taken by a marker.
type note struct {
	at   place
	free float64
	text string
}

// notes writes names of series and labels of points, the longest first, each somewhere around its point where it covers
// no marker, no line and nothing that is taken, or else covers lines alone, or nowhere.
func (c Chart) notes(f frame, taken []box) {
	var lines []box
	var notes []note
	for _, s := range c.Series {
		last := note{text: s.Name}
		for _, line := range s.Lines {
			before := place{}
			for i, p := range line {
				at, _, drawn := f.show(p)
				if !drawn {
					continue
				}
				if i > 0 && before != (place{}) {
					lines = append(lines, along(before, at)...)
				}
				before = at
				r := radius(p.Doubt)
				notes = append(notes, note{at, r, p.Label})
				if p.Title != "" {
					taken = append(taken, box{at, 2 * r, 2 * r})
				}
				if p.Title != "" && at.x >= last.at.x {
					last.at, last.free = at, r
				}
			}
		}
		notes = append(notes, last)
	}
	slices.SortStableFunc(notes, func(a, b note) int { return cmp.Compare(len(b.text), len(a.text)) })
	for _, n := range notes {
		if n.text == "" {
			continue
		}
		b, found := n.place(f, slices.Concat(taken, lines))
		if !found {
			b, found = n.place(f, taken)
		}
		if found {
			taken = append(taken, b)
		}
	}
}

// place writes a note where it meets nothing that is taken, and returns its place. found is false if there is none.
func (n note) place(f frame, taken []box) (b box, found bool) {
	b = box{width: float64(7 * len(n.text)), height: textSize - 2}
	side, up, down := b.width/2+n.free+4, -n.free-7, n.free+8
	for _, to := range []place{{0, up}, {0, down}, {side, 0}, {-side, 0},
		{side, up}, {-side, up}, {-side, down}, {side, down}} {
		b.place = place{max(min(n.at.x+to.x, f.width-b.width/2-tick), b.width/2+tick), n.at.y + to.y}
		if b.y >= textSize/2.0 && !slices.ContainsFunc(taken, b.meets) {
			f.to.text("note", place{b.x, b.y + textSize/3.0}, "middle", n.text)
			return b, true
		}
	}
	return b, false
}
