package stream

import (
	"bytes"
	"fmt"

	"github.com/spate-load/spate/api"
)

// eventReader splits reads of any size into server-sent events, or into the messages of a binary stream. An event's
// data is returned in place in the buffer, without a copy, unless the event has several data lines. Reset prepares it
// for a stream.
//
//	buf:  | given out | keep ... line ... scan ... | end | free
type eventReader struct {
	line     int    // start of the current line
	end      int    // end of the bytes read
	lines    int    // data lines of the current event
	afterR   bool   // the previous line ended with a carriage return; a following line feed belongs to it
	begun    bool   // a line was read; no byte order mark can follow
	named    bool   // the current event is named "error"
	Failed   bool   // the event returned last is an error, by its name or its message's type
	binary   bool   // the stream has AWS's binary encoding: see nextMessage
	plain    bool   // each line that is not empty is an event
	Name     []byte // type of the event returned last, in a binary stream
	attached bool
	Err      error // what is wrong with the stream; nothing more is returned
	buf      []byte
	own      []byte // own buffer while attached
	stop     int    // end of the previous line
	scan     int    // where to continue the search for the current line's end
	from     int    // start of the event's first data line
	to       int
	joined   []byte // the event's data lines, if there are several
	limit    int    // longest event, in bytes
}

const (
	// frameLimit is the longest event, in bytes.
	frameLimit   = 1 << 20
	initialSpace = 2 << 10
	minSpace     = 512
	pooledSpace  = 64 << 10 // larger buffers are not kept between streams
)

// errFrameTooLong means that an event is longer than frameLimit.
var errFrameTooLong = fmt.Errorf("a frame is longer than %d bytes", frameLimit)

// Reset prepares for another stream.
func (e *eventReader) Reset(f api.Framing) {
	*e = eventReader{buf: e.buf, joined: e.joined[:0], limit: frameLimit, binary: f == api.EventStream,
		plain: f == api.JSONLines}
	if len(e.buf) > pooledSpace {
		recycle(e.buf)
		e.buf = nil
	}
	if cap(e.joined) > pooledSpace {
		recycle(e.joined)
		e.joined = nil
	}
}

// keep returns the start of what must stay in the buffer: the event's only data line, or else the current line.
func (e *eventReader) keep() int {
	if e.lines == 1 {
		return e.from
	}
	return e.line
}

// Space returns the buffer for the next read. It invalidates the data that Next has returned.
func (e *eventReader) Space() []byte {
	keep := e.keep()
	if keep == e.end || keep > 0 && len(e.buf)-e.end < minSpace {
		e.move(e.buf, keep)
	}
	if len(e.buf)-e.end < minSpace {
		old := e.buf
		e.move(block(max(2*len(old), initialSpace)), e.keep())
		recycle(old)
	}
	return e.buf[e.end:]
}

// SingleEvent is the fast path for a read that is exactly one event with one data line, as most servers write them. It
// returns that line's data. False: p is not such an event, or an earlier event is incomplete.
func (e *eventReader) SingleEvent(p []byte) ([]byte, bool) {
	const begin, end = "data: ", "\n\n"
	if !e.begun || e.binary || e.plain || e.named || e.lines > 0 || e.line != e.end || len(p) <= len(begin)+len(end) ||
		string(p[:len(begin)]) != begin || string(p[len(p)-len(end):]) != end {
		return nil, false
	}
	p = p[len(begin) : len(p)-len(end)]
	if lineEnd(p) >= 0 {
		return nil, false
	}
	e.afterR, e.Failed = false, false
	return p, true
}

// Attach makes Next read events in place from p until Detach is called. If an earlier event is incomplete, p is copied.
func (e *eventReader) Attach(p []byte) {
	if keep := e.keep(); keep == e.end {
		e.own, e.attached = e.buf, true
		e.buf, e.line, e.scan, e.stop, e.end = p, 0, 0, 0, len(p)
		return
	}
	for len(p) > 0 {
		n := copy(e.Space(), p)
		e.Filled(n)
		p = p[n:]
	}
}

// Detach ends the effect of Attach and copies the part of p that is still needed.
func (e *eventReader) Detach() {
	if !e.attached {
		return
	}
	e.attached = false
	keep, own := e.keep(), e.own
	if e.end-keep > len(own) {
		recycle(own)
		own = block(max(2*(e.end-keep), initialSpace))
	}
	e.move(own, keep)
	e.own = nil
}

// move copies the bytes to keep to the start of a buffer and uses that buffer.
func (e *eventReader) move(to []byte, keep int) {
	copy(to, e.buf[keep:e.end])
	e.buf = to
	e.line -= keep
	e.scan -= keep
	e.end -= keep
	e.from -= keep
	e.to -= keep
}

// Held returns how many bytes of memory the reader holds.
func (e *eventReader) Held() int { return len(e.buf) + cap(e.joined) }

// Filled adds the first n bytes of Space.
func (e *eventReader) Filled(n int) { e.end += n }

// Next returns the data of the next complete event. The data is valid until Space is called. False: more must be read,
// or Err is set.
func (e *eventReader) Next() ([]byte, bool) {
	if e.binary {
		return e.nextMessage()
	}
	for e.Err == nil {
		line, ok := e.nextLine()
		if !ok {
			return nil, false
		}
		if len(line) > 0 && e.plain {
			return line, true
		}
		if len(line) > 0 {
			e.field(line)
		} else if data := e.dispatch(); len(data) > 0 {
			return data, true
		}
	}
	return nil, false
}

// Last returns the data of an event that the stream's end completes. False: there is none.
func (e *eventReader) Last() ([]byte, bool) {
	if e.binary {
		return e.lastMessage()
	}
	if e.Err == nil && e.line < e.end {
		line := e.strip(e.buf[e.line:e.end])
		e.line, e.scan, e.stop = e.end, e.end, e.end
		if e.plain {
			return line, len(line) > 0
		}
		if len(line) > 0 {
			e.field(line)
		}
	}
	data := e.dispatch()
	return data, e.Err == nil && len(data) > 0
}

// nextLine returns the next line without its end: a line feed, a carriage return, or both.
func (e *eventReader) nextLine() ([]byte, bool) {
	if e.afterR && e.line < e.end {
		e.afterR = false
		if e.buf[e.line] == '\n' {
			e.line++
			e.scan = e.line
		}
	}
	stop := lineEnd(e.buf[e.scan:e.end])
	if stop < 0 {
		e.scan = e.end
		if e.end-e.keep() > e.limit {
			e.Err = errFrameTooLong
		}
		return nil, false
	}
	stop += e.scan
	line := e.strip(e.buf[e.line:stop])
	e.afterR = e.buf[stop] == '\r'
	e.line, e.scan, e.stop = stop+1, stop+1, stop
	return line, true
}

// lineBlock is how many bytes are searched for a line's end at a time. Otherwise, in a stream without carriage returns,
// each of many short lines would cost a search through the whole buffer.
const lineBlock = 512

// lineEnd returns the index of the first line feed or carriage return, or -1.
func lineEnd(b []byte) int {
	for from := 0; from < len(b); from += lineBlock {
		block := b[from:min(from+lineBlock, len(b))]
		n := bytes.IndexByte(block, '\n')
		if n >= 0 {
			block = block[:n]
		}
		if r := bytes.IndexByte(block, '\r'); r >= 0 {
			return from + r
		}
		if n >= 0 {
			return from + n
		}
	}
	return -1
}

// strip removes the byte order mark from the first line.
func (e *eventReader) strip(line []byte) []byte {
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte("\ufeff"))
	}
	return line
}

// field parses one line that is not empty.
func (e *eventReader) field(line []byte) {
	if rest, ok := bytes.CutPrefix(line, []byte("data:")); ok {
		e.add(value(rest))
		return
	}
	name, rest, _ := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "data":
		e.add(value(rest))
	case "event":
		e.named = string(value(rest)) == "error"
	case "", "id", "retry": // a comment, or only for clients that reconnect
	default:
		if !isFieldName(name) {
			e.Err = fmt.Errorf("invalid line in the event stream: %.80q", line)
		}
	}
}

// value returns the value after a field's colon.
func value(rest []byte) []byte { return bytes.TrimPrefix(rest, []byte(" ")) }

// isFieldName distinguishes unknown fields, which the standard says to ignore, from bytes that are not an event.
func isFieldName(name []byte) bool {
	for _, c := range name {
		if letter := 'a' <= c|0x20 && c|0x20 <= 'z'; !letter && c != '-' && c != '_' && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// add adds one data line, which is in the buffer.
func (e *eventReader) add(data []byte) {
	e.lines++
	if e.lines == 1 {
		e.from, e.to = e.stop-len(data), e.stop
		return
	}
	if e.lines == 2 {
		first := e.buf[e.from:e.to]
		e.joined = e.joined[:0]
		e.reserve(len(first))
		e.joined = append(e.joined, first...)
	}
	e.reserve(len("\n") + len(data))
	e.joined = append(append(e.joined, '\n'), data...)
	if len(e.joined) > e.limit {
		e.Err = errFrameTooLong
	}
}

// reserve makes room for n more bytes of joined lines.
func (e *eventReader) reserve(n int) {
	if need := len(e.joined) + n; need > cap(e.joined) {
		e.joined = grown(e.joined, 2*need)
	}
}

// dispatch ends the event and returns its data.
func (e *eventReader) dispatch() []byte {
	lines := e.lines
	e.lines, e.Failed, e.named = 0, e.named, false
	switch {
	case e.Err != nil || lines == 0:
		return nil
	case lines == 1:
		return e.buf[e.from:e.to]
	}
	return e.joined
}
