package stream

import "hash/maphash"

// span says how much of an answer a frame's text is.
type span uint8

const (
	// aPiece is what is new.
	aPiece span = iota
	// soFar is all of the answer up to now, as a rule; some servers are set to send pieces.
	soFar
	// unsure is a piece as a rule; some servers send all of the answer up to now. A text that is the one before and
	// more shows it; one that is the same does not.
	unsure
)

// growth finds out what a frame adds to an answer where it can hold all of the answer so far. It keeps no text: a hash
// says whether a text begins with the one before. A text that does not is a piece, and so are then all that follow. It
// costs time by the bytes of a frame and no memory.
type growth struct {
	length int
	hash   uint64
	grew   bool // a text was the one before and more
	pieces bool
}

var growthSeed = maphash.MakeSeed()

// added returns the part of a text that the frames before did not have.
func (g *growth) added(text []byte, s span) []byte {
	if g.pieces || len(text) == 0 {
		return text
	}
	before := g.length
	if len(text) < before || before > 0 && maphash.Bytes(growthSeed, text[:before]) != g.hash {
		g.pieces = true
		return text
	}
	if before > 0 && len(text) == before && s == unsure && !g.grew {
		return text
	}
	g.grew = g.grew || before > 0 && len(text) > before
	g.length, g.hash = len(text), maphash.Bytes(growthSeed, text)
	return text[before:]
}
