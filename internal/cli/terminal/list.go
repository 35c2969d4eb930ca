package terminal

import (
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// List prints names with a text beside each, wrapped to the terminal, if there is one.
func List(w io.Writer, names, texts []string) error {
	t := table.New(table.Words("", ""))
	width := 0
	for _, name := range names {
		width = max(width, utf8.RuneCountInString(name)+2)
	}
	if terminal := Width(w); terminal > 0 {
		width = max(20, terminal-width)
	} else {
		width = 0
	}
	for i, name := range names {
		for n, line := range words.Wrap(texts[i], width) {
			if n > 0 {
				name = ""
			}
			t.Add(name, line)
		}
	}
	_, err := io.WriteString(w, strings.Join(append(t.Lines(0)[1:], ""), "\n"))
	return err
}
