package document

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// readerError matches an error of the YAML reader. Its line is often that of the block around the mistake, or a
// neighbouring line, and it has no column.
var readerError = regexp.MustCompile(`(?s)^yaml: (?:line (\d+): )?(.*)$`)

// syntaxMistakes says why data is not YAML, and where.
func syntaxMistakes(path string, data []byte, err error) Mistakes {
	m := Mistake{Path: path, Message: "not readable as YAML: " + err.Error()}
	if part := readerError.FindStringSubmatch(err.Error()); part != nil {
		m.Line, _ = strconv.Atoi(part[1])
		m.Message = "not readable as YAML: " + part[2]
	}
	if at, found := brokenAt(data); found {
		begin := bytes.LastIndexByte(data[:at], '\n') + 1
		m.Line, m.Column = bytes.Count(data[:at], []byte("\n"))+1, utf8.RuneCount(data[begin:at])+1
		if tab := tabIn(data[begin:]); tab > 0 && strings.Contains(m.Message, "found ") {
			m.Column, m.Message = tab, "a tab in the indentation: indent with spaces"
		}
	}
	return Mistakes{m}
}

// tabIn returns the column of the first tab in the indentation of a line, counted from 1, or 0 if there is none.
func tabIn(line []byte) int {
	indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
	return bytes.IndexByte(indent, '\t') + 1
}

// searchBudget bounds the bytes that brokenAt parses in total: less than a second's work, however deeply they are
// nested.
const searchBudget = 1 << 20

// brokenAt returns the offset of the byte that makes data invalid YAML: data up to that byte is valid, and no longer
// prefix is. For a quote or bracket that is never closed, it returns the offset of the opening character.
func brokenAt(data []byte) (offset int, found bool) {
	budget := searchBudget
	fine := func(n int) bool {
		budget -= n
		return budget < 0 || wellFormed(bytes.NewReader(data[:n]))
	}
	end := readTo(data)
	var line int
	for {
		line = bytes.LastIndexByte(data[:max(0, end-1)], '\n') + 1
		if fine(line) {
			break
		}
		end = line
	}
	for end--; end > line && !fine(end); {
		end--
	}
	return end, budget >= 0
}

// readTo returns the offset up to which the YAML reader asks for data, which is invalid, before it fails.
func readTo(data []byte) int {
	asked := &byteReader{data: data}
	wellFormed(asked)
	return asked.offset
}

// byteReader returns one byte at a time, so that nothing is read ahead.
type byteReader struct {
	data   []byte
	offset int
}

func (r *byteReader) Read(p []byte) (n int, err error) {
	if r.offset == len(r.data) {
		return 0, io.EOF
	}
	r.offset++
	return copy(p, r.data[r.offset-1:r.offset]), nil
}

// wellFormed reports whether the input is YAML, of any number of documents.
func wellFormed(r io.Reader) bool {
	decoder := yaml.NewDecoder(r)
	for {
		var document yaml.Node
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return true
		case err != nil:
			return false
		}
	}
}
