// Package terminal writes for terminals: their width, colours, lists that wrap, and a run in progress, in lines and in
// full screen.
package terminal

import (
	"io"
	"math"
	"os"
	"strings"

	"golang.org/x/term"
)

// Width returns the width of the terminal behind w in columns, or 0 if w is not a terminal.
func Width(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Palette colours text for a terminal. If it is false, text stays as it is.
type Palette bool

// PaletteOf returns a palette that colours text if w is a terminal, unless NO_COLOR (https://no-color.org) or a dumb
// terminal forbids it.
func PaletteOf(w io.Writer) Palette {
	return Palette(Width(w) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// ANSI colours.
const (
	Red    = "31"
	Green  = "32"
	Yellow = "33"
	Cyan   = "36"
)

// Paint colours text.
func (p Palette) Paint(colour, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// Bar draws which part of something has passed, from 0 to 1, in a number of cells, with a sign for what has passed and
// one for the rest.
func Bar(part float64, cells int, passed, rest string) string {
	full := int(max(0, min(1, part)) * float64(cells))
	return strings.Repeat(passed, full) + strings.Repeat(rest, cells-full)
}

// steps are the heights of a sparkline. A full block is none of them: it would touch the line above.
var steps = []rune("▁▂▃▄▅▆▇")

// Spark draws the last values, one in a cell, from 0 to the largest of them. A NaN is a blank. It returns what it drew,
// as wide as there are cells, and the largest value, NaN if there is none.
func Spark(values []float64, cells int) (line string, largest float64) {
	values = values[max(0, len(values)-max(0, cells)):]
	largest = math.NaN()
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) && !(v <= largest) {
			largest = v
		}
	}
	var b strings.Builder
	for _, v := range values {
		b.WriteRune(stepOf(v, largest))
	}
	b.WriteString(strings.Repeat(" ", max(0, cells-len(values))))
	return b.String(), largest
}

// stepOf returns the step of a value.
func stepOf(v, largest float64) rune {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return ' '
	case largest <= 0:
		return steps[0]
	}
	return steps[int(math.Round(max(0, v)/largest*float64(len(steps)-1)))]
}
