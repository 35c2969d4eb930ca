package wire

import "errors"

// framing finds the body of a response in the bytes of its connection, which come in pieces of any size (RFC 9112, 6.3
// and 7.1).
type framing struct {
	// bytes left of the current chunk, or of a body that is not chunked; -1: such a body lasts until the connection
	// ends
	left    int64
	chunked bool
	place   chunkPlace
	whole   bool
	digits  int32 // digits of the current chunk's size
	line    int32 // bytes of the current line, or of the trailers
}

// chunkPlace is where the next byte is in a chunked body.
type chunkPlace uint8

const (
	inSize      chunkPlace = iota // of a chunk
	inExtension                   // after the size, in its line
	sizeEnd                       // at the line feed after the size
	inData
	dataEnd // at the carriage return after the data
	dataFeed
	trailerBegin // at the start of a trailer line
	inTrailer
	trailerEnd // at the line feed of a trailer line
	lastFeed   // at the line feed of the empty line
)

const (
	// longestSize is the maximum of digits in a chunk's size.
	longestSize = 16
	// longestLine bounds one line of a chunked body, and all trailers together, in bytes.
	longestLine = 64 << 10
)

var errChunks = errors.New("malformed chunked encoding")

// reset prepares for a body. length is the length of a body that is not chunked, -1 if it lasts until the connection
// ends.
func (f *framing) reset(chunked bool, length int64) {
	*f = framing{chunked: chunked, left: length, whole: !chunked && length == 0}
	if chunked {
		f.left = 0
	}
}

// next returns the next piece of the body in p, and the bytes after it. The piece is empty if p has none. Once whole is
// set, the rest of p is not part of the body.
func (f *framing) next(p []byte) (data, rest []byte, err error) {
	if !f.chunked {
		data, rest = f.cut(p)
		f.whole = f.left == 0
		return data, rest, nil
	}
	for len(p) > 0 && !f.whole {
		if f.place == inData {
			if data, rest = f.cut(p); f.left == 0 {
				f.place = dataEnd
			}
			return data, rest, nil
		}
		if !f.step(p[0]) {
			return nil, p, errChunks
		}
		p = p[1:]
	}
	return nil, p, nil
}

// cut splits p after what is left of the data.
func (f *framing) cut(p []byte) (data, rest []byte) {
	if f.left < 0 {
		return p, nil
	}
	n := min(f.left, int64(len(p)))
	f.left -= n
	return p[:n], p[n:]
}

// step parses a byte outside the data. It returns false if that byte is not allowed there.
func (f *framing) step(b byte) bool {
	switch f.place {
	case inSize:
		return f.size(b)
	case inExtension:
		f.moveIf(b == '\r', sizeEnd)
		return b != '\n' && f.lineFits()
	case sizeEnd:
		return b == '\n' && f.begin()
	case dataEnd:
		f.place = dataFeed
		return b == '\r'
	case dataFeed:
		f.place = inSize
		return b == '\n'
	case trailerBegin:
		if f.place = inTrailer; b == '\r' {
			f.place = lastFeed
		}
		return b != '\n'
	case inTrailer:
		f.moveIf(b == '\r', trailerEnd)
		return b != '\n' && f.lineFits()
	case trailerEnd:
		f.place = trailerBegin
		return b == '\n'
	default: // lastFeed
		f.whole = true
		return b == '\n'
	}
}

// moveIf moves to a place if the condition is true.
func (f *framing) moveIf(condition bool, place chunkPlace) {
	if condition {
		f.place = place
	}
}

// lineFits counts a byte of a line and reports whether the line is within longestLine.
func (f *framing) lineFits() bool {
	f.line++
	return f.line <= longestLine
}

// size parses a byte of a chunk's size.
func (f *framing) size(b byte) bool {
	var digit byte
	switch {
	case '0' <= b && b <= '9':
		digit = b - '0'
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		digit = b | 0x20 - 'a' + 10
	case b == '\r':
		f.place = sizeEnd
		return f.digits > 0
	default:
		f.place = inExtension
		return f.digits > 0 && (b == ';' || b == ' ' || b == '\t')
	}
	f.left = f.left<<4 | int64(digit)
	f.digits++
	return f.digits <= longestSize && f.left >= 0
}

// begin starts a chunk's data, or the trailers after the last chunk.
func (f *framing) begin() bool {
	f.digits, f.line = 0, 0
	if f.place = inData; f.left == 0 {
		f.place = trailerBegin
	}
	return true
}
