package document

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// checkText refuses what no plan contains and what YAML readers disagree on: a size above the limit, bytes that are not
// UTF-8, NUL, and line breaks that editors do not count as lines (they would shift every position after them).
func checkText(path string, data []byte, maxBytes int) Mistakes {
	if len(data) > maxBytes {
		return Mistakes{{Path: path, Message: fmt.Sprintf("the plan has %d bytes, more than the limit of %d",
			len(data), maxBytes)}}
	}
	line, start := 1, 0
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if what := unreadable(r, size, data[i+size:]); what != "" {
			return Mistakes{{Path: path, Line: line, Column: utf8.RuneCount(data[start:i]) + 1, Message: what}}
		}
		i += size
		if r == '\n' {
			line, start = line+1, i
		}
	}
	return nil
}

// unreadable returns what is wrong with a rune, given what follows it, or "" if nothing is.
func unreadable(r rune, size int, rest []byte) string {
	switch {
	case r == utf8.RuneError && size == 1:
		return "the text is not UTF-8: save the file as UTF-8"
	case r == 0:
		return "the file contains a NUL byte: it is not a text file, or it is UTF-16"
	case r == '\r' && !bytes.HasPrefix(rest, []byte("\n")):
		return "a carriage return without a line feed: save the file with Unix line endings"
	case r == '\u0085', r == '\u2028', r == '\u2029':
		return fmt.Sprintf("the line break %U is not readable: in double quotes write it as \\u%04X", r, r)
	}
	return ""
}
