// Package terminal writes for terminals: their width, colours, lists that wrap, and a run in progress, in lines and in
// full screen.
package terminal

import (
	"io"
	"os"

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
