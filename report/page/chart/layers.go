package chart

import (
	"cmp"
	"slices"
	"strconv"
)

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

// Heat is a map of cells in the colours of the ordered scale.
type Heat struct {
	// Title is for people who point at the map, whose colours then have no order. Empty: there is none.
	Title string
	// Cells are the cells that are not empty.
	Cells []Cell
	// Limits are the values up to which a cell has the first, second, ... colour. Greater values have the last one.
	Limits []float64
}

// Cell is a rectangle of a Heat, with its value.
type Cell struct{ X0, X1, Y0, Y1, Value float64 }

// bounds implements Layer.
func (h Heat) bounds() (x, y extent) {
	x, y = nothing, nothing
	for _, c := range h.Cells {
		x, y = x.join(extent{c.X0, c.X1}), y.join(extent{c.Y0, c.Y1})
	}
	return x, y
}

// draw implements Layer. All cells of a colour are one path, and neighbours in a row one rectangle.
func (h Heat) draw(f frame) {
	rectangles := make([][]Cell, len(h.Limits)+1)
	cells := slices.Clone(h.Cells)
	slices.SortStableFunc(cells, func(a, b Cell) int {
		return cmp.Or(cmp.Compare(a.Y0, b.Y0), cmp.Compare(a.X0, b.X0))
	})
	for i := 0; i < len(cells); i++ {
		c := cells[i]
		level := h.level(c.Value)
		for i+1 < len(cells) && cells[i+1].Y0 == c.Y0 && cells[i+1].X0 == c.X1 && h.level(cells[i+1].Value) == level {
			i++
			c.X1 = cells[i].X1
		}
		rectangles[level] = append(rectangles[level], c)
	}
	scale := len(rectangles)
	if h.Title != "" {
		scale = 0
		f.to.open("p", h.Title)
		defer f.to.close()
	}
	for level, all := range rectangles {
		colour := Style{Number: level, Of: scale}.ink()
		for _, c := range all {
			f.to.fill(colour, f.at(c.X0, c.Y0), f.at(c.X1, c.Y0), f.at(c.X1, c.Y1), f.at(c.X0, c.Y1))
		}
	}
}

// level returns the number of a value's colour.
func (h Heat) level(v float64) int {
	for i, limit := range h.Limits {
		if v <= limit {
			return i
		}
	}
	return len(h.Limits)
}
