package terminal

import (
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spate-load/spate/internal/layout"
)

// List prints names with a text beside each, wrapped to the terminal, if there is one.
func List(w io.Writer, names, texts []string) error {
	t := &layout.Table{}
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
		for n, line := range layout.Wrap(texts[i], width) {
			if n > 0 {
				name = ""
			}
			t.Row(name, line)
		}
	}
	if err := t.Write(w); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	return nil
}
