package stream

import "encoding/binary"

// Frames of HTTP/2 as far as they must be told apart (RFC 9113, 4.1 and 6).
const (
	frameHead         = 9
	frameData         = 0x0
	frameHeaders      = 0x1
	frameSettings     = 0x4
	frameContinuation = 0x9
	flagEndStream     = 0x1
	flagPadded        = 0x8
	prefaceLength     = 24 // of a client's connection preface, before its first frame
)

// frameScanner walks over the frames of one direction of a connection, however they are cut.
type frameScanner struct {
	skip int // bytes that come before the first frame, or the next
	head [frameHead]byte
	have int // of the head
	left int // of the payload
	pad  int // of the payload's end; -1: its length comes next
}

// scanned is what was in some bytes.
type scanned struct {
	data    int  // bytes of bodies, without padding
	message bool // something of a frame that makes up a message
	ended   bool // the end of a frame that ends its message
}

// scan takes in the next bytes.
func (s *frameScanner) scan(p []byte) (in scanned) {
	for len(p) > 0 {
		var n int
		switch {
		case s.skip > 0:
			n = min(s.skip, len(p))
			s.skip -= n
		case s.have < frameHead:
			n = copy(s.head[s.have:], p)
			if s.have += n; s.have == frameHead {
				s.begin()
				s.endIfDone(&in)
			}
		default:
			n = s.payload(p, &in)
			s.endIfDone(&in)
		}
		p = p[n:]
	}
	return in
}

// begin reads the head of a frame.
func (s *frameScanner) begin() {
	s.left, s.pad = int(binary.BigEndian.Uint32(s.head[:4])>>8), 0
	if s.kind() == frameData && s.head[4]&flagPadded != 0 && s.left > 0 {
		s.pad = -1
	}
}

func (s *frameScanner) kind() byte { return s.head[3] }

// payload takes in bytes of a frame behind its head, and returns how many it took.
func (s *frameScanner) payload(p []byte, in *scanned) int {
	if s.pad < 0 {
		s.left--
		s.pad = min(int(p[0]), s.left)
		return 1
	}
	n := min(s.left, len(p))
	if s.kind() == frameData {
		in.data += min(n, max(s.left-s.pad, 0))
	}
	s.left -= n
	return n
}

// endIfDone ends a frame that is complete.
func (s *frameScanner) endIfDone(in *scanned) {
	message := s.kind() == frameData || s.kind() == frameHeaders || s.kind() == frameContinuation
	if message {
		in.message = true
	}
	if s.left > 0 {
		return
	}
	s.have = 0
	if message && s.kind() != frameContinuation && s.head[4]&flagEndStream != 0 {
		in.ended = true
	}
}

// http2Frames is what is known of the frames on a connection that speaks HTTP/2. The library that takes them apart
// reads ahead on a goroutine of its own, so the read before is not the one that brought the bytes which a body gives:
// each read is marked by how many bytes of bodies had come with it, and the body is given out no further than to the
// next mark.
type http2Frames struct {
	in, out frameScanner
	marks   []mark  // of reads whose bytes the body has not given out yet
	first   int     // of those that are left
	came    int64   // bytes of the body
	given   int64   // of them the body gave out
	sent    bool    // the request, to its end
	last    reading // the one that brought the last byte given out
}

// newHTTP2Frames begins a connection.
func newHTTP2Frames() *http2Frames { return &http2Frames{out: frameScanner{skip: prefaceLength}} }

// mark says that bytes of the body up to end came with a read or before.
type mark struct {
	end int64
	by  reading
}

// reset begins a request.
func (f *http2Frames) reset() {
	*f = http2Frames{in: f.in, out: f.out, marks: f.marks[:0]}
}

// arrived takes in what a read brought.
func (f *http2Frames) arrived(p []byte, by reading) {
	data := f.in.scan(p).data
	if data == 0 {
		return
	}
	if f.first == len(f.marks) {
		f.marks, f.first = f.marks[:0], 0
	}
	f.came += int64(data)
	f.marks = append(f.marks, mark{f.came, by})
}

// next is how many bytes the body may give out at once: those up to the next mark, or one byte if it must be waited
// for.
func (f *http2Frames) next() int {
	if f.first == len(f.marks) {
		return 1
	}
	return int(f.marks[f.first].end - f.given)
}

// gave takes in that the body gave out n bytes, as many as next said at most.
func (f *http2Frames) gave(n int) {
	if n == 0 || f.first == len(f.marks) {
		return
	}
	f.given += int64(n)
	f.last = f.marks[f.first].by
	if f.given >= f.marks[f.first].end {
		f.first++
	}
}
