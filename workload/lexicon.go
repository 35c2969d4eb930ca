package workload

import (
	"slices"

	"github.com/spate-load/spate/workload/draw"
	"github.com/spate-load/spate/workload/rows"
)

// This file has the words that text prompts are made of: the package's own, or those of a list. Each is one
// token.

// lexicon is a list of words that are one token each, ready to be written between the quotes of a JSON string.
type lexicon struct {
	// short holds the words if none is longer than 7 bytes. Otherwise it is empty.
	short []word
	// long holds the words, each with a space behind it, if any word is longer than 7 bytes.
	long []string
	// most is the length in bytes of the longest word with its space.
	most int
}

// newLexicon returns the lexicon of a list, or of the package's own words if the list is empty.
func newLexicon(list []string) *lexicon {
	if len(list) == 0 {
		return &lexicon{short: words, most: len(word{}.letters)}
	}
	plain := make([]string, len(list))
	most := 0
	for i, w := range list {
		plain[i] = rows.Escape(w)
		most = max(most, len(plain[i])+1)
	}
	if most <= len(word{}.letters) {
		return &lexicon{short: withSpaces(plain), most: len(word{}.letters)}
	}
	for i := range plain {
		plain[i] += " "
	}
	return &lexicon{long: plain, most: most}
}

// Size returns the number of words.
func (l *lexicon) Size() int { return len(l.short) + len(l.long) }

// Append appends the n words that numbers from, from+1, ... of a sequence draw, with a space between two, none at the
// ends, and no quotes. It allocates only to grow dst.
func (l *lexicon) Append(dst []byte, tokens draw.Sequence, from, n uint64) []byte {
	if n == 0 {
		return dst
	}
	dst = slices.Grow(dst, int(n)*l.most)
	if l.long != nil {
		return l.appendLong(dst, tokens, from, n)
	}
	return l.appendShort(dst, tokens, from, n)
}

// appendShort copies all eight bytes of each word, and the next word overwrites the excess. This is twice as fast as
// copying by length.
func (l *lexicon) appendShort(dst []byte, tokens draw.Sequence, from, n uint64) []byte {
	room, end, list := dst[:cap(dst)], len(dst), l.short
	for i := from; i < from+n; i++ {
		w := &list[tokens.Below(i, uint64(len(list)))]
		copy(room[end:], w.letters[:])
		end += w.size
	}
	return room[:end-1]
}

// appendLong copies words of any length.
func (l *lexicon) appendLong(dst []byte, tokens draw.Sequence, from, n uint64) []byte {
	for i := from; i < from+n; i++ {
		dst = append(dst, l.long[tokens.Below(i, uint64(len(l.long)))]...)
	}
	return dst[:len(dst)-1]
}
