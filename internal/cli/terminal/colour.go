package terminal

import (
	"io"
	"os"
)

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
