package spatecmd

import (
	"io"
	"os"

	"golang.org/x/term"
)

// terminalWidth is the width of the terminal behind w in columns, 0 if there is none.
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
