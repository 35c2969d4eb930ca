package dataset

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxUsedItem is the maximum length, in bytes, of a line or array element that is used. A prompt of a million tokens
// has about 5 MB. A longer item is skipped without being kept, and counts as unusable.
const maxUsedItem = 32 << 20

// maxReadItem is the length of a line or element above which a source is refused: it is a device, or not a file of
// rows.
const maxReadItem = 1 << 30

// errItemTooLong is the error for a line or element that does not end within maxReadItem bytes.
var errItemTooLong = fmt.Errorf("is longer than %d MiB: the file is not a file of rows", maxReadItem>>20)

// item is one line, or one element of an array.
type item struct {
	number  uint64 // from 1
	text    []byte // valid until the next item
	tooLong bool
	fault   error // why the item cannot be used, an unusableError; nil: it may be usable
}

// items are the lines or elements of a source. next returns io.EOF after the last one.
type items interface {
	next() (item, error)
	// unit returns the word for an item.
	unit() string
}

// lines are the lines of a source, without their line ends.
type lines struct {
	src    *bufio.Reader
	buffer []byte
	number uint64
}

func (l *lines) unit() string { return "line" }

// next returns the next line. The last line needs no line end.
func (l *lines) next() (item, error) {
	l.buffer = l.buffer[:0]
	it := item{number: l.number + 1}
	for length := 0; ; {
		part, err := l.src.ReadSlice('\n')
		if length += len(part); length > maxReadItem {
			return it, fmt.Errorf("line %d %w", it.number, errItemTooLong)
		}
		it.tooLong = it.tooLong || len(l.buffer)+len(part) > maxUsedItem
		if it.tooLong {
			part = nil
		}
		if len(l.buffer) == 0 && err == nil {
			it.text = part // the line still lies in the reader's buffer
		} else {
			l.buffer = append(l.buffer, part...)
			it.text = l.buffer
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(it.text) == 0 && !it.tooLong:
			return it, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return it, fmt.Errorf("line %d: %w", it.number, explainEOF(err))
		}
		l.number++
		it.text = bytes.TrimSuffix(bytes.TrimSuffix(it.text, []byte("\n")), []byte("\r"))
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
}

func (e *elements) unit() string { return "element" }

// newItems returns the elements of an array if the source's first character is a bracket, or else its lines.
func newItems(src *bufio.Reader) (items, error) {
	for n := 1; ; n++ {
		head, err := src.Peek(n)
		if err != nil || n == src.Size() {
			return &lines{src: src}, nil //nolint:nilerr // the error comes up again at the first line
		}
		switch head[n-1] {
		case ' ', '\t', '\r', '\n':
		case '[':
			_, err := src.Discard(n)
			return &elements{src: src}, err
		default:
			return &lines{src: src}, nil
		}
	}
}

// next returns the next element.
func (e *elements) next() (item, error) {
	it := item{number: e.number + 1}
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
	it.text = bytes.TrimSpace(e.buffer)
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
		if it.tooLong = it.tooLong || len(e.buffer)+n > maxUsedItem; !it.tooLong {
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
