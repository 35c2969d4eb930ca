package stream

import "bytes"

// chunkScanner walks over a chunked body (RFC 9112, 7.1), however it is cut.
type chunkScanner struct {
	place chunkPlace
	left  int // of the present chunk's data, with the end of its line
}

type chunkPlace uint8

const (
	inSize    chunkPlace = iota // of a chunk
	inRest                      // of the line with its size
	inChunk                     // data
	behindAll                   // trailers
)

// longestChunk keeps a size that nobody means from running over.
const longestChunk = 1 << 26

// scan takes in the next bytes and returns how many of them are data.
func (s *chunkScanner) scan(p []byte) (data int) {
	for len(p) > 0 && s.place != behindAll {
		n := 1
		if s.place == inChunk {
			n = min(s.left, len(p))
			data += max(min(n, s.left-len("\r\n")), 0)
			if s.left -= n; s.left == 0 {
				s.place = inSize
			}
		} else {
			s.line(p[0])
		}
		p = p[n:]
	}
	return data
}

// line takes in a byte of the line before a chunk.
func (s *chunkScanner) line(b byte) {
	digit := bytes.IndexByte([]byte("0123456789abcdef"), b|0x20)
	switch {
	case b == '\n' && s.left == 0:
		s.place = behindAll
	case b == '\n':
		s.place, s.left = inChunk, s.left+len("\r\n")
	case s.place == inSize && digit >= 0 && b >= '0':
		s.left = min(s.left<<4|digit, longestChunk)
	default:
		s.place = inRest
	}
}

// bodyReads tells of the bytes of a chunked body which read of the connection brought them. net/http waits for the end of a chunk of which a
// part has come, though there are whole frames before that part: so one read of the body can take several of the connection.
type bodyReads struct {
	answer  []byte // what came of the response before its body was begun
	begun   bool
	chunked bool
	chunks  chunkScanner
	marks   []mark // of reads whose bytes the body has not given out before its last read
	came    int64  // bytes of the body
	given   int64  // of them the body gave out
}

// reset begins a request.
func (b *bodyReads) reset() { *b = bodyReads{answer: b.answer[:0], marks: b.marks[:0]} }

// arrived takes in what a read brought.
func (b *bodyReads) arrived(p []byte, by reading) {
	switch {
	case !b.begun:
		b.answer = append(b.answer, p...)
	case b.chunked:
		b.mark(p, by)
	}
}

// begin begins the body, of which some bytes may have come with the head. All came with one read: net/http reads no further than it must.
func (b *bodyReads) begin(chunked bool, by reading) {
	b.begun, b.chunked = true, chunked
	if chunked {
		b.mark(behindHeads(b.answer), by)
	}
	b.answer = b.answer[:0]
}

func (b *bodyReads) mark(p []byte, by reading) {
	if data := b.chunks.scan(p); data > 0 {
		b.came += int64(data)
		b.marks = append(b.marks, mark{b.came, by})
	}
}

// gave takes in that a read of the body gave out n bytes, and returns the marks of all that is given out by now and was not before; they are
// valid until the body is read again. None: it is not known which reads these were.
func (b *bodyReads) gave(n int) (marks []mark, given int64) {
	passed := 0
	for passed < len(b.marks) && b.marks[passed].end <= b.given {
		passed++
	}
	b.marks = b.marks[:copy(b.marks, b.marks[passed:])]
	b.given += int64(n)
	return b.marks, b.given
}

// behindHeads is what follows the head of a response, and those of the provisional ones before it.
func behindHeads(answer []byte) []byte {
	for {
		provisional := bytes.HasPrefix(answer, []byte("HTTP/1.1 1"))
		_, rest, whole := bytes.Cut(answer, []byte("\r\n\r\n"))
		if !whole || !provisional {
			return rest
		}
		answer = rest
	}
}
