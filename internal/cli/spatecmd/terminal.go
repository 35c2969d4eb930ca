package spatecmd

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminalWidth returns the width of the terminal behind w in columns, or 0 if w is not a terminal.
func terminalWidth(w io.Writer) int {
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
