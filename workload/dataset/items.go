package dataset

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"unicode/utf8"

	"github.com/spate-load/spate/workload/rows"
)

// This file reads source files: it uncompresses their text, and divides it into items, which are lines, elements of
// a JSON array, records of CSV, rows of Parquet or spans of OTLP JSON. One item is in memory at a time.

// maxUsed is the maximum length, in bytes, of a line or array element that is used. A prompt of a million tokens
// has about 5 MB. A longer item is skipped without being kept, and counts as unusable.
const maxUsed = 32 << 20

// maxReadItem is the length of a line or element above which a source is refused: it is a device, or not a file of
// rows.
const maxReadItem = 256 << 20

// errItemTooLong is the error for a line or element that does not end within maxReadItem bytes.
var errItemTooLong = fmt.Errorf("is longer than %d MiB: the file is not a file of rows", maxReadItem>>20)

// item is what a row is made from: a line, an element of an array, a record of CSV, a row of Parquet, or a span.
type item struct {
	Number  uint64   // from 1
	Text    []byte   // valid until the next item
	Fields  []string // of a record of CSV that is not text; valid as long
	TooLong bool
	Fault   error // why the item cannot be used; nil: it may be usable
}

// itemReader reads the items of a source.
type itemReader interface {
	// Next returns the next item, and io.EOF after the last one.
	Next() (item, error)
	// Unit returns the word for an item.
	Unit() string
}

// lines are the lines of a source, without their line ends.
type lines struct {
	src    *bufio.Reader
	buffer []byte
	number uint64
}

// newLines returns the lines of a source.
func newLines(src *bufio.Reader) itemReader { return &lines{src: src} }

// Unit returns "line".
func (l *lines) Unit() string { return "line" }

// Next returns the next line. The last line needs no line end.
func (l *lines) Next() (item, error) {
	l.buffer = l.buffer[:0]
	it := item{Number: l.number + 1}
	for length := 0; ; {
		part, err := l.src.ReadSlice('\n')
		if length += len(part); length > maxReadItem {
			return it, fmt.Errorf("line %d %w", it.Number, errItemTooLong)
		}
		it.TooLong = it.TooLong || len(l.buffer)+len(part) > maxUsed
		if it.TooLong {
			part = nil
		}
		if len(l.buffer) == 0 && err == nil {
			it.Text = part // the line still lies in the reader's buffer
		} else {
			l.buffer = append(l.buffer, part...)
			it.Text = l.buffer
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(it.Text) == 0 && !it.TooLong:
			return it, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return it, fmt.Errorf("line %d: %w", it.Number, explainEOF(err))
		}
		l.number++
		it.Text = bytes.TrimSuffix(bytes.TrimSuffix(it.Text, []byte("\n")), []byte("\r"))
		return it, nil
	}
}

// elements are the elements of a JSON array that is the whole source. They are split by brackets and quotes alone, so
// that an element that is not valid JSON does not end the others, and only one element is in memory.
type elements struct {
	src    *bufio.Reader
	buffer []byte
	number uint64
	ended  bool
	inside bool // the array is not the whole source
}

// Unit returns "element".
func (e *elements) Unit() string { return "element" }

// dataHead is the beginning of an object whose first member is an array, data, as in AIPerf's inputs.json.
var dataHead = regexp.MustCompile(`^\s*\{\s*"data"\s*:\s*\[`)

// newElements returns the elements of an array if the source's first character is a bracket, those of data if the
// source is an object that begins with it, or else its lines.
func newElements(src *bufio.Reader) (itemReader, error) {
	const longest = 256
	head, _ := src.Peek(longest) // an error comes up again
	if found := dataHead.Find(head); found != nil {
		_, err := src.Discard(len(found))
		return &elements{src: src, inside: true}, err
	}
	for n := 1; ; n++ {
		head, err := src.Peek(n)
		if err != nil || n == src.Size() {
			return newLines(src), nil //nolint:nilerr // the error comes up again at the first line
		}
		switch head[n-1] {
		case ' ', '\t', '\r', '\n':
		case '[':
			_, err := src.Discard(n)
			return &elements{src: src}, err
		default:
			return newLines(src), nil
		}
	}
}

// Next returns the next element.
func (e *elements) Next() (item, error) {
	it := item{Number: e.number + 1}
	if e.ended {
		return it, e.end()
	}
	switch c, err := e.peek(); {
	case err != nil:
		return it, e.unexpectedEnd(err)
	case c == ']':
		e.ended = true
		if _, err := e.src.Discard(1); err != nil {
			return it, e.unexpectedEnd(err)
		}
		return it, e.end()
	}
	if err := e.take(&it); err != nil {
		return it, e.unexpectedEnd(err)
	}
	c, err := e.src.ReadByte()
	if err != nil {
		return it, e.unexpectedEnd(err)
	}
	e.number, e.ended = e.number+1, c == ']'
	it.Text = bytes.TrimSpace(e.buffer)
	return it, nil
}

// take reads an element up to the comma or bracket that ends it.
func (e *elements) take(it *item) error {
	cut := elementScanner{}
	e.buffer = e.buffer[:0]
	for length := 0; !cut.done; {
		if _, err := e.src.Peek(1); err != nil {
			return err
		}
		ready, _ := e.src.Peek(e.src.Buffered())
		n := cut.length(ready)
		if length += n; length > maxReadItem {
			return errItemTooLong
		}
		if it.TooLong = it.TooLong || len(e.buffer)+n > maxUsed; !it.TooLong {
			e.buffer = append(e.buffer, ready[:n]...)
		}
		if _, err := e.src.Discard(n); err != nil {
			return err
		}
	}
	return nil
}

// peek returns the next character that is not white space, without consuming it.
func (e *elements) peek() (byte, error) {
	for {
		c, err := e.src.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, e.src.UnreadByte()
		}
	}
}

// end checks that nothing follows the array.
func (e *elements) end() error {
	if e.inside {
		return io.EOF
	}
	c, err := e.peek()
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case err != nil:
		return fmt.Errorf("after element %d: %w", e.number, explainEOF(err))
	}
	return fmt.Errorf("%q follows the end of the array: a file must contain only one array", c)
}

// unexpectedEnd returns the error for a source that ends within the array.
func (e *elements) unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("element %d: the array does not end: the file may be incomplete: %w", e.number+1,
			io.ErrUnexpectedEOF)
	}
	if errors.Is(err, errItemTooLong) {
		return fmt.Errorf("element %d %w", e.number+1, err)
	}
	return fmt.Errorf("element %d: %w", e.number+1, explainEOF(err))
}

// elementScanner finds the end of an element.
type elementScanner struct {
	depth           int
	quoted, escaped bool
	done            bool
}

// length returns how much of the text belongs to the element. After it sets done, the next character is the comma or
// bracket that ends the element.
func (c *elementScanner) length(text []byte) int {
	for i, b := range text {
		switch {
		case c.escaped:
			c.escaped = false
		case c.quoted:
			c.escaped, c.quoted = b == '\\', b != '"'
		case b == '"':
			c.quoted = true
		case b == '{' || b == '[':
			c.depth++
		case c.depth > 0 && (b == '}' || b == ']'):
			c.depth--
		case c.depth == 0 && (b == ',' || b == ']'):
			c.done = true
			return i
		}
	}
	return len(text)
}

// records are the records of a CSV file as JSON objects, whose members have the names in the file's first record. A
// field in quotes may have line breaks. Fields are strings, but those of numbers.
type records struct {
	src     *limitedRecord
	csv     *csv.Reader
	names   []string // escaped for JSON
	numbers []bool
	plain   bool // records are fields instead of objects
	text    []byte
}

// limitedRecord is the text of one record, which has a limit.
type limitedRecord struct {
	*bufio.Reader
	read int
}

// Read reads, or returns an error if the record does not end within maxReadItem bytes.
func (l *limitedRecord) Read(b []byte) (int, error) {
	if l.read > maxReadItem {
		return 0, errItemTooLong
	}
	n, err := l.Reader.Read(b)
	l.read += n
	return n, err
}

// newRecords returns the records of a CSV file as JSON objects. It reads the names of the columns. Columns named in
// numbers hold numbers.
func newRecords(src *bufio.Reader, numbers []string) (*records, error) {
	limited := &limitedRecord{Reader: src}
	r := &records{src: limited, csv: csv.NewReader(limited)}
	r.csv.ReuseRecord = true
	names, err := r.csv.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the first line, which must name the columns: %w", err)
	}
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return nil, fmt.Errorf("the first line names the column %.40q twice", name)
		}
		r.names = append(r.names, rows.Escape(name))
		r.numbers = append(r.numbers, slices.Contains(numbers, name))
	}
	return r, nil
}

// Unit returns "line".
func (r *records) Unit() string { return "line" }

// Next returns the next record. Its number is that of its first line.
func (r *records) Next() (item, error) {
	r.src.read = 0
	fields, err := r.csv.Read()
	var fault *csv.ParseError
	switch {
	case errors.Is(err, csv.ErrFieldCount):
		line, _ := r.csv.FieldPos(0)
		return item{Number: uint64(line),
			Fault: fmt.Errorf("has %d fields, but there are %d columns", len(fields), len(r.names))}, nil
	case errors.As(err, &fault):
		return item{Number: uint64(fault.StartLine), Fault: fmt.Errorf("is not CSV: %w", fault.Err)}, nil
	case err != nil:
		return item{}, explainEOF(err)
	}
	line, _ := r.csv.FieldPos(0)
	it := item{Number: uint64(line)}
	if r.plain {
		it.Fields = fields
		return it, nil
	}
	r.text = append(r.text[:0], '{')
	for i, field := range fields {
		if !utf8.ValidString(field) {
			it.Fault = errors.New("is not UTF-8")
			return it, nil
		}
		if i > 0 {
			r.text = append(r.text, ',')
		}
		r.text = fmt.Appendf(r.text, `"%s":`, r.names[i])
		r.text = r.value(r.text, field, r.numbers[i])
	}
	r.text = append(r.text, '}')
	it.Text, it.TooLong = r.text, len(r.text) > maxUsed
	return it, nil
}

// value appends a field as a JSON value. An empty number is null.
func (r *records) value(dst []byte, field string, number bool) []byte {
	switch {
	case number && field == "":
		return append(dst, "null"...)
	case number && isNumber(field):
		return append(dst, field...)
	}
	return append(append(append(dst, '"'), rows.Escape(field)...), '"')
}

// isNumber reports whether a text is a JSON number.
func isNumber(text string) bool {
	return (text[0] == '-' || text[0] >= '0' && text[0] <= '9') && json.Valid([]byte(text))
}
