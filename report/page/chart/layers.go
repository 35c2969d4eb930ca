package chart

import "strconv"

// Bands divides the horizontal axis into parts, such as the stages of a run.
type Bands []Band

// Band is a part of the horizontal axis, from From to To. Its Label stands at its top if it is wide enough.
type Band struct {
	From, To     float64
	Label, Title string
}

// narrowest is the width in CSS pixels below which a band is not drawn: it could not be seen.
const narrowest = 3

// bounds implements Layer.
func (b Bands) bounds() (x, y extent) { return nothing, nothing }

// draw implements Layer.
func (b Bands) draw(f frame) {
	for i, band := range b {
		x0, x1 := f.x.at(band.From), f.x.at(band.To)
		if x1-x0 < narrowest {
			continue
		}
		f.to.open("p", band.Title)
		f.to.fill(ink("band"+strconv.Itoa(i%2)), place{x0, f.bottom}, place{x0, f.top}, place{x1, f.top},
			place{x1, f.bottom})
		f.to.close()
		if x1-x0 > float64(7*len(band.Label)) {
			f.to.text("ink", place{(x0 + x1) / 2, f.top - 3}, "middle", band.Label)
		}
	}
}

// Marks are events at points of the horizontal axis.
type Marks []Mark

// Mark is an event, with its words. Its Label stands at its top.
type Mark struct {
	X            float64
	Title, Label string
}

// bounds implements Layer.
func (m Marks) bounds() (x, y extent) { return nothing, nothing }

// draw implements Layer.
func (m Marks) draw(f frame) {
	for _, mark := range m {
		x := f.x.at(mark.X)
		f.to.open("p", mark.Title)
		f.to.stroke(line{ink: "h", width: 12}, place{x, f.bottom}, place{x, f.top}) // to point at
		f.to.stroke(line{ink: "event", width: 2, dashed: true}, place{x, f.bottom}, place{x, f.top})
		f.to.close()
		half := textWidth(mark.Label) / 2
		f.to.text("ink", place{max(min(x, f.width-half), half), f.top - 3}, "middle", mark.Label)
	}
}

// Bar is rectangles side by side, with words for people who point at them.
type Bar struct {
	Title string
	Cells []Cell
}

// Cell is a rectangle in the colour of a number.
type Cell struct {
	X0, X1, Y0, Y1 float64
	Colour         int
}

// bounds implements Layer.
func (b Bar) bounds() (x, y extent) {
	x, y = nothing, nothing
	for _, c := range b.Cells {
		x, y = x.join(extent{c.X0, c.X1}), y.join(extent{c.Y0, c.Y1})
	}
	return x, y
}

// draw implements Layer.
func (b Bar) draw(f frame) {
	f.to.open("p", b.Title)
	for _, c := range b.Cells {
		f.to.fill(Style{Number: c.Colour}.ink(), f.at(c.X0, c.Y0), f.at(c.X1, c.Y0), f.at(c.X1, c.Y1), f.at(c.X0, c.Y1))
	}
	f.to.close()
}
