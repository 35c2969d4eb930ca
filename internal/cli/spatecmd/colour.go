package spatecmd

import (
	"io"
	"os"
	"regexp"
	"strings"
)

// palette colours text for a terminal. If it is false, text stays as it is.
type palette bool

// paletteOf returns a palette that colours text if w is a terminal, unless NO_COLOR (https://no-color.org) or a dumb
// terminal forbids it.
func paletteOf(w io.Writer) palette {
	return palette(terminalWidth(w) > 0 && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

// ANSI colours.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
)

func (p palette) paint(colour, text string) string {
	if !p || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

var failures = regexp.MustCompile(`[0-9,]+ failed|\(incomplete\)`)

var bars = regexp.MustCompile(`█+`)

// stage colours a line about a stage. The line must already have its layout: colour codes have no width.
func (p palette) stage(line string) string {
	line = bars.ReplaceAllStringFunc(line, func(s string) string { return p.paint(cyan, s) })
	return failures.ReplaceAllStringFunc(line, func(s string) string { return p.paint(red, s) })
}

// mark colours the mark of a notice.
func (p palette) mark(mark string) string {
	switch strings.TrimSpace(mark) {
	case "✗":
		return p.paint(red, mark)
	case "!":
		return p.paint(yellow, mark)
	}
	return mark
}

// state colours how a run ended, given as in `ending`.
func (p palette) state(state string) string {
	switch {
	case state == "done" || state == "done, VALID":
		return p.paint(green, state)
	case state == "done, SUSPECT" || strings.HasPrefix(state, "stopped"):
		return p.paint(yellow, state)
	}
	return p.paint(red, state)
}
