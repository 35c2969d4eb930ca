package rows

import (
	"encoding/binary"
	"errors"
	"math"
)

// errContent means that a content is too short or too long.
var errContent = errors.New("its content does not match its kind")

// appendContent appends the content of a row: text as it is, numbers as varints.
func appendContent(dst []byte, row *Row) []byte {
	switch row.Kind {
	case Text:
		return append(dst, row.Content...)
	case Messages:
		return append(binary.AppendUvarint(dst, uint64(row.Insert)), row.Content...)
	case MessagesWithFields:
		dst = binary.AppendUvarint(dst, uint64(row.Insert))
		return appendBytes(appendBytes(dst, row.Content), row.Fields)
	case TokenIDs:
		for _, id := range row.IDs {
			dst = binary.AppendUvarint(dst, uint64(id))
		}
	case Blocks:
		return appendBlocks(dst, row.Blocks)
	case Session, Texts, Documents:
		return appendTurns(dst, row)
	case Steps:
		return appendSteps(dst, row.Steps)
	}
	return dst
}

// appendBlocks appends hash ids as differences: in real traces most ids follow the id before, so that they take one
// byte.
func appendBlocks(dst []byte, blocks []uint64) []byte {
	before := uint64(0)
	for _, id := range blocks {
		dst = binary.AppendVarint(dst, int64(id-before))
		before = id
	}
	return dst
}

// appendTurns appends a conversation.
func appendTurns(dst []byte, row *Row) []byte {
	dst = appendBytes(dst, row.Content)
	for _, t := range row.Turns {
		dst = binary.AppendUvarint(dst, uint64(t.ISL))
		dst = binary.AppendUvarint(dst, uint64(t.OSL))
		dst = appendBytes(appendBytes(dst, t.User), t.Answer)
	}
	return dst
}

// appendBytes appends a length and that many bytes.
func appendBytes(dst, b []byte) []byte {
	return append(binary.AppendUvarint(dst, uint64(len(b))), b...)
}

// parseContent fills in the row's content. It does not copy text.
func parseContent(b []byte, row *Row) error {
	r := reader{rest: b}
	switch row.Kind {
	case Text:
		row.Content = b
		return nil
	case Messages:
		insert := r.number()
		row.Content, row.Insert = r.rest, int(insert)
		r.bad = r.bad || insert > uint64(len(r.rest))
		r.rest = nil
	case MessagesWithFields:
		insert := r.number()
		row.Content, row.Fields, row.Insert = r.bytes(), r.bytes(), int(insert)
		r.bad = r.bad || insert > uint64(len(row.Content))
	case TokenIDs:
		for len(r.rest) > 0 && !r.bad {
			row.IDs = append(row.IDs, r.small())
		}
	case Blocks:
		r.blocks(row)
	case Session, Texts, Documents:
		r.turns(row)
	case Steps:
		r.steps(row)
	}
	if r.bad || len(r.rest) > 0 {
		return errContent
	}
	return nil
}

// reader consumes values from a content. If a value is missing, the reader becomes bad and the value is 0.
type reader struct {
	rest []byte
	bad  bool
}

// number reads a number.
func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.bad, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// small reads a 32-bit number.
func (r *reader) small() uint32 {
	v := r.number()
	if v > math.MaxUint32 {
		r.bad = true
	}
	return uint32(v)
}

// bytes reads a length and that many bytes.
func (r *reader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.rest)) {
		r.bad, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// blocks reads hash ids.
func (r *reader) blocks(row *Row) {
	before := uint64(0)
	for len(r.rest) > 0 && !r.bad {
		v, n := binary.Varint(r.rest)
		if n <= 0 {
			r.bad = true
			return
		}
		r.rest = r.rest[n:]
		before += uint64(v)
		row.Blocks = append(row.Blocks, before)
	}
}

// turns reads a conversation.
func (r *reader) turns(row *Row) {
	row.Content = r.bytes()
	for range row.TurnCount {
		t := Turn{ISL: r.small(), OSL: r.small(), User: r.bytes(), Answer: r.bytes()}
		if r.bad {
			return
		}
		row.Turns = append(row.Turns, t)
	}
	r.bad = r.bad || len(row.Turns) == 0
}
