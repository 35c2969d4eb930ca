package api

import "hash/maphash"

// Span says which part of an answer a frame's text is.
type Span uint8

const (
	// SpanPiece is only the new text.
	SpanPiece Span = iota
	// SpanSoFar is usually the whole answer so far. Some servers are configured to send pieces.
	SpanSoFar
	// SpanUnsure is usually a piece. Some servers send the whole answer so far. A text that extends the previous one
	// shows that; a text equal to the previous one does not.
	SpanUnsure
)

// Growth finds out what a frame adds to an answer, for APIs whose frames can hold the whole answer so far. It keeps no
// text: a hash shows whether a text starts with the previous one. A text that does not is a piece, and then all later
// texts are pieces. The time is proportional to a frame's bytes; no memory is allocated.
type Growth struct {
	length int
	hash   uint64
	grew   bool // a text extended the previous one
	pieces bool
}

var growthSeed = maphash.MakeSeed()

// Added returns the part of a text that earlier frames did not have.
func (g *Growth) Added(text []byte, s Span) []byte {
	if g.pieces || len(text) == 0 {
		return text
	}
	before := g.length
	if len(text) < before || before > 0 && maphash.Bytes(growthSeed, text[:before]) != g.hash {
		g.pieces = true
		return text
	}
	if before > 0 && len(text) == before && s == SpanUnsure && !g.grew {
		return text
	}
	g.grew = g.grew || before > 0 && len(text) > before
	g.length, g.hash = len(text), maphash.Bytes(growthSeed, text)
	return text[before:]
}
