package chart

import (
	"html"
	"math"
	"strconv"
	"strings"
)

// ink is a colour by the name of a CSS class. The page's style sheet has the colours.
type ink string

// place is a point of a chart in CSS pixels, from its upper left corner.
type place struct{ x, y float64 }

// canvas writes compact SVG.
type canvas struct {
	b       strings.Builder
	element string // start of the element to which paths are added. Empty: there is none
}

// String returns what was drawn.
func (c *canvas) String() string {
	c.write("")
	return c.b.String()
}

// open starts a group of a CSS class, with a title for people who point at it, unless that is empty. close ends it.
func (c *canvas) open(class, title string, attributes ...string) {
	c.write(`<g class="` + class + `"` + strings.Join(attributes, "") + `>`)
	if title != "" {
		c.b.WriteString("<title>" + html.EscapeString(title) + "</title>")
	}
}

func (c *canvas) close() { c.write("</g>") }

// line is how a line is drawn.
type line struct {
	ink    ink
	width  float64
	dashed bool
}

// stroke draws a line through places.
func (c *canvas) stroke(l line, places ...place) {
	if len(places) > 1 {
		c.path(l.element(), places, "")
	}
}

func (l line) element() string {
	e := `<path class="l ` + string(l.ink) + `"`
	if l.width != 1 {
		e += ` stroke-width="` + number(l.width) + `"`
	}
	if l.dashed {
		e += ` stroke-dasharray="5 4"`
	}
	return e
}

// fill fills the polygon with corners at places.
func (c *canvas) fill(i ink, places ...place) { c.path(filled(i), places, "z") }

func filled(i ink) string { return `<path class="f ` + string(i) + `"` }

// circle draws a circle in the style of an element.
func (c *canvas) circle(element string, at place, r float64) {
	d, radius := number(2*r), number(r)
	c.add(element, "M"+number(at.x-r)+" "+number(at.y)+"a"+radius+" "+radius+" 0 1 0 "+d+" 0a"+radius+" "+radius+
		" 0 1 0-"+d+" 0z")
}

// hit draws what people who point beside a marker point at.
func (c *canvas) hit(at place) {
	c.write(`<circle class="h" cx="` + number(at.x) + `" cy="` + number(at.y) + `" r="12"/>`)
}

// path draws a path. Coordinates are relative to the point before, because that is shorter, and in whole tenths of a
// pixel, which add up without an error.
func (c *canvas) path(element string, places []place, end string) {
	tenths := func(v float64) int { return int(math.Round(v * 10)) }
	x, y := tenths(places[0].x), tenths(places[0].y)
	d := "M" + pair(x, y)
	for _, p := range places[1:] {
		dx, dy := tenths(p.x)-x, tenths(p.y)-y
		x, y = x+dx, y+dy
		switch {
		case dx == 0 && dy == 0:
		case dx == 0:
			d += "v" + number(float64(dy)/10)
		case dy == 0:
			d += "h" + number(float64(dx)/10)
		default:
			d += "l" + pair(dx, dy)
		}
	}
	c.add(element, d+end)
}

// pair formats a pair of tenths of a pixel.
func pair(x, y int) string {
	if y < 0 {
		return number(float64(x)/10) + number(float64(y)/10)
	}
	return number(float64(x)/10) + " " + number(float64(y)/10)
}

// add adds a path. Paths of one style that follow each other become one element.
func (c *canvas) add(element, d string) {
	if element != c.element {
		c.write("")
		c.element = element
		c.b.WriteString(element + ` d="`)
	}
	c.b.WriteString(d)
}

// write writes an element, after the element of paths, if there is one.
func (c *canvas) write(s string) {
	if c.element != "" {
		c.b.WriteString(`"/>`)
		c.element = ""
	}
	c.b.WriteString(s)
}

// text writes a text at its baseline. anchor is "middle", "end", or "" for its start.
func (c *canvas) text(i ink, at place, anchor, s string) {
	if s == "" {
		return
	}
	c.write("<text")
	if i != "ink" { // which all texts have
		c.b.WriteString(` class="` + string(i) + `"`)
	}
	c.b.WriteString(` x="` + number(at.x) + `" y="` + number(at.y) + `"`)
	if anchor != "" {
		c.b.WriteString(` text-anchor="` + anchor + `"`)
	}
	c.b.WriteString(">" + html.EscapeString(s) + "</text>")
}

// textSize is the size of labels, and charWidth the mean width of a character of them, in CSS pixels.
const textSize, charWidth = 12, 6.5

// textWidth returns about how wide a label is.
func textWidth(s string) float64 { return charWidth * float64(len([]rune(s))) }

// number formats a length to a tenth of a pixel.
func number(v float64) string {
	v = math.Round(v*10) / 10
	if v == 0 {
		return "0" // not "-0"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}
