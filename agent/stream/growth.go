package stream

import "hash/maphash"

// span says which part of an answer a frame's text is.
type span uint8

const (
	// spanPiece is only the new text.
	spanPiece span = iota
	// spanSoFar is usually the whole answer so far. Some servers are configured to send pieces.
	spanSoFar
	// spanUnsure is usually a piece. Some servers send the whole answer so far. A text that extends the previous one
	// shows that; a text equal to the previous one does not.
	spanUnsure
)

// growth finds out what a frame adds to an answer, for APIs whose frames can hold the whole answer so far. It keeps no
// text: a hash shows whether a text starts with the previous one. A text that does not is a piece, and then all later
// texts are pieces. The time is proportional to a frame's bytes; no memory is allocated.
type growth struct {
	length int
	hash   uint64
	grew   bool // a text extended the previous one
	pieces bool
}

var growthSeed = maphash.MakeSeed()

// added returns the part of a text that earlier frames did not have.
func (g *growth) added(text []byte, s span) []byte {
	if g.pieces || len(text) == 0 {
		return text
	}
	before := g.length
	if len(text) < before || before > 0 && maphash.Bytes(growthSeed, text[:before]) != g.hash {
		g.pieces = true
		return text
	}
	if before > 0 && len(text) == before && s == spanUnsure && !g.grew {
		return text
	}
	g.grew = g.grew || before > 0 && len(text) > before
	g.length, g.hash = len(text), maphash.Bytes(growthSeed, text)
	return text[before:]
}
