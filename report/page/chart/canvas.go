package chart

import (
	"html"
	"image"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ink is a colour by the name of a CSS class. The page's style sheet has the colours.
type ink string

// RGBA makes ink a color.Color, which is how it passes through the library. Only its name is used.
func (ink) RGBA() (r, g, b, a uint32) { return 0, 0, 0, math.MaxUint16 }

// canvas is a vg.Canvas that writes compact SVG. Its unit is one CSS pixel, and y grows upwards as in all of vg.
type canvas struct {
	b             strings.Builder
	width, height vg.Length
	now           state
	element       string // start of the element to which paths are added. Empty: there is none
	stack         []state
}

// state is what Push saves and Pop restores.
type state struct {
	class  string
	width  vg.Length
	dashes []vg.Length
	groups int // <g> that Pop closes
}

var _ vg.CanvasSizer = (*canvas)(nil)

// newCanvas returns an empty canvas.
func newCanvas(width, height vg.Length) *canvas {
	c := &canvas{width: width, height: height}
	vg.Initialize(c)
	return c
}

// String returns what was drawn.
func (c *canvas) String() string {
	c.endElement()
	return c.b.String()
}

// Size implements vg.CanvasSizer.
func (c *canvas) Size() (x, y vg.Length) { return c.width, c.height }

// SetLineWidth implements vg.Canvas.
func (c *canvas) SetLineWidth(w vg.Length) { c.now.width = w }

// SetLineDash implements vg.Canvas. The offset is not used.
func (c *canvas) SetLineDash(pattern []vg.Length, _ vg.Length) { c.now.dashes = pattern }

// SetColor implements vg.Canvas. Colours other than ink are those of text.
func (c *canvas) SetColor(col color.Color) {
	c.now.class = "ink"
	if name, ok := col.(ink); ok {
		c.now.class = string(name)
	}
}

// Rotate implements vg.Canvas.
func (c *canvas) Rotate(rad float64) {
	c.transform("rotate(" + number(-rad*180/math.Pi) + " 0 " + c.y(0) + ")")
}

// Translate implements vg.Canvas.
func (c *canvas) Translate(p vg.Point) {
	c.transform("translate(" + number(float64(p.X)) + " " + number(float64(-p.Y)) + ")")
}

// Scale implements vg.Canvas.
func (c *canvas) Scale(x, y float64) {
	up := c.y(0)
	c.transform("translate(0 " + up + ") scale(" + number(x) + " " + number(y) + ") translate(0 -" + up + ")")
}

func (c *canvas) transform(t string) {
	c.write(`<g transform="` + t + `">`)
	c.now.groups++
}

// Push implements vg.Canvas.
func (c *canvas) Push() {
	c.stack = append(c.stack, c.now)
	c.now.groups = 0
}

// Pop implements vg.Canvas.
func (c *canvas) Pop() {
	c.write(strings.Repeat("</g>", c.now.groups))
	c.now, c.stack = c.stack[len(c.stack)-1], c.stack[:len(c.stack)-1]
}

// open starts a group of a CSS class, with a title for people who point at it, unless that is empty. close ends it.
func (c *canvas) open(class, title string) {
	c.write(`<g class="` + class + `">`)
	if title != "" {
		c.b.WriteString("<title>" + html.EscapeString(title) + "</title>")
	}
}

func (c *canvas) close() { c.write("</g>") }

// Stroke implements vg.Canvas.
func (c *canvas) Stroke(p vg.Path) {
	if c.now.width <= 0 {
		return
	}
	var open strings.Builder
	open.WriteString(`<path class="l ` + c.now.class + `"`)
	if c.now.width != 1 {
		open.WriteString(` stroke-width="` + number(float64(c.now.width)) + `"`)
	}
	if len(c.now.dashes) > 0 {
		open.WriteString(` stroke-dasharray="`)
		for i, d := range c.now.dashes {
			if i > 0 {
				open.WriteByte(' ')
			}
			open.WriteString(number(float64(d)))
		}
		open.WriteByte('"')
	}
	c.add(open.String(), p)
}

// Fill implements vg.Canvas.
func (c *canvas) Fill(p vg.Path) { c.add(`<path class="f `+c.now.class+`"`, p) }

// add writes a path. Paths of one style that follow each other become one element.
func (c *canvas) add(element string, p vg.Path) {
	if element != c.element {
		c.endElement()
		c.element = element
		c.b.WriteString(element + ` d="`)
	}
	c.path(p)
}

// endElement ends the element of paths, if there is one.
func (c *canvas) endElement() {
	if c.element != "" {
		c.b.WriteString(`"/>`)
		c.element = ""
	}
}

// write writes an element.
func (c *canvas) write(s string) {
	c.endElement()
	c.b.WriteString(s)
}

// path writes the commands of a path. Coordinates are relative to the point before, because that is shorter.
func (c *canvas) path(p vg.Path) {
	var at pen
	for i, comp := range p {
		switch comp.Type {
		case vg.MoveComp:
			at = c.tenths(comp.Pos)
			c.b.WriteString("M" + at.String())
		case vg.LineComp:
			c.b.WriteString(at.line(c.tenths(comp.Pos)))
		case vg.ArcComp:
			c.arc(comp, i == 0, &at)
		case vg.CurveComp:
			c.b.WriteString("C")
			for _, q := range comp.Control {
				c.b.WriteString(c.tenths(q).String() + " ")
			}
			at = c.tenths(comp.Pos)
			c.b.WriteString(at.String())
		case vg.CloseComp:
			c.b.WriteByte('z')
		}
	}
}

// arc writes an arc as two halves, because SVG cannot draw a whole circle as one arc. first: a path starts with it.
func (c *canvas) arc(a vg.PathComp, first bool, at *pen) {
	on := func(angle float64) pen {
		sin, cos := math.Sincos(angle)
		return c.tenths(vg.Point{X: a.Pos.X + a.Radius*vg.Length(cos), Y: a.Pos.Y + a.Radius*vg.Length(sin)})
	}
	sweep, r := "0 ", number(float64(a.Radius))
	if a.Angle < 0 {
		sweep = "1 "
	}
	start := on(a.Start)
	if first {
		*at = start
		c.b.WriteString("M" + at.String())
	}
	c.b.WriteString(at.line(start))
	for _, angle := range []float64{a.Start + a.Angle/2, a.Start + a.Angle} {
		end := on(angle)
		c.b.WriteString("a" + r + " " + r + " 0 0 " + sweep + pen{end.x - at.x, end.y - at.y}.String())
		*at = end
	}
}

// pen is a point in tenths of a CSS pixel, with y growing downwards. Whole numbers add up without an error.
type pen struct{ x, y int }

// tenths returns a point of the canvas.
func (c *canvas) tenths(p vg.Point) pen {
	return pen{int(math.Round(float64(p.X) * 10)), int(math.Round(float64(c.height-p.Y) * 10))}
}

// String returns the coordinates, as a path has them.
func (p pen) String() string {
	y := number(float64(p.y) / 10)
	if p.y < 0 {
		return number(float64(p.x)/10) + y
	}
	return number(float64(p.x)/10) + " " + y
}

// line moves the pen and returns the command that draws the line.
func (p *pen) line(to pen) string {
	d := pen{to.x - p.x, to.y - p.y}
	*p = to
	switch {
	case d.x == 0 && d.y == 0:
		return ""
	case d.x == 0:
		return "v" + number(float64(d.y)/10)
	case d.y == 0:
		return "h" + number(float64(d.x)/10)
	}
	return "l" + d.String()
}

// FillString implements vg.Canvas.
func (c *canvas) FillString(_ font.Face, p vg.Point, s string) { c.text(p, "", s) }

// text writes a text at its baseline. anchor is "middle", "end", or "" for its start.
func (c *canvas) text(p vg.Point, anchor, s string) {
	c.write("<text")
	if c.now.class != "ink" { // which all texts have
		c.b.WriteString(` class="` + c.now.class + `"`)
	}
	c.b.WriteString(` x="` + number(float64(p.X)) + `" y="` + c.y(p.Y) + `"`)
	if anchor != "" {
		c.b.WriteString(` text-anchor="` + anchor + `"`)
	}
	c.b.WriteString(">" + html.EscapeString(s) + "</text>")
}

// DrawImage implements vg.Canvas. Charts have no images.
func (c *canvas) DrawImage(vg.Rectangle, image.Image) {}

// y converts an ordinate to SVG's, which grows downwards.
func (c *canvas) y(y vg.Length) string { return number(float64(c.height - y)) }

// number formats a length to a tenth of a pixel.
func number(v float64) string {
	v = math.Round(v*10) / 10
	if v == 0 {
		return "0" // not "-0"
	}
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// labels writes texts with SVG's own alignment, because the reader's font may be wider than the one that the library
// measures.
type labels struct {
	text.Plain
	to *canvas
}

// Draw implements text.Handler for texts of one line that are not rotated.
func (l labels) Draw(_ vg.Canvas, s string, style text.Style, at vg.Point) {
	if s == "" {
		return
	}
	l.to.SetColor(style.Color)
	extents := l.Extents(style.Font)
	at.Y += (extents.Ascent+extents.Descent)*vg.Length(style.YAlign) + extents.Descent
	if style.YAlign == draw.YTop {
		at.Y -= 2 // away from the tick
	}
	switch style.XAlign {
	case draw.XCenter:
		l.to.text(at, "middle", s)
	case draw.XRight:
		l.to.text(at.Add(vg.Point{X: -2}), "end", s)
	default:
		l.to.text(at, "", s)
	}
}
