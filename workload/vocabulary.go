package workload

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/spate-load/spate/workload/draw"
)

// Default token ids: above the special tokens and within the vocabulary of common models.
const (
	defaultFirstID = 1000
	defaultLastID  = 9999
)

// vocabulary is what tokens are drawn from: words in a text prompt, numbers in a prompt of token ids. In both, each
// token is drawn by one number of a sequence.
type vocabulary struct {
	lexicon *lexicon
	start   *lexicon // words at the start of a text
	first   uint32   // first token id
	ids     uint64   // number of token ids
}

// newVocabulary takes the words of a Config. A first or last of 0 means the default id.
func newVocabulary(c Config, first, last uint32) (*vocabulary, error) {
	for _, words := range [][]string{c.Words, c.FirstWords} {
		if i := slices.Index(words, ""); i >= 0 {
			return nil, fmt.Errorf("workload: word %d of the lexicon is empty", i+1)
		}
	}
	if first == 0 {
		first = defaultFirstID
	}
	if last == 0 {
		last = defaultLastID
	}
	if last < first {
		return nil, fmt.Errorf("workload: first_token_id %d is greater than last_token_id %d: swap them",
			first, last)
	}
	v := &vocabulary{lexicon: newLexicon(c.Words), first: first, ids: uint64(last-first) + 1}
	if v.start = v.lexicon; len(c.FirstWords) > 0 {
		v.start = newLexicon(c.FirstWords)
	}
	return v, nil
}

// size returns the number of different tokens in a form.
func (v *vocabulary) size(form Form) uint64 {
	if form == TokenIDs {
		return v.ids
	}
	return uint64(v.lexicon.Size())
}

// tokensFor returns how many tokens at the start of a text distinguish 2^bits things.
func (v *vocabulary) tokensFor(form Form, bits float64) uint64 {
	each := math.Log2(float64(v.size(form)))
	if form == TokenIDs {
		return uint64(math.Ceil(bits / each))
	}
	return 1 + uint64(math.Ceil(max(0, bits-math.Log2(float64(v.start.Size())))/each))
}

// append appends the n tokens that numbers from, from+1, ... of a sequence draw, with a space or comma between two and
// no quotes or brackets. With start, they are the first tokens of a text.
func (v *vocabulary) append(dst []byte, form Form, tokens draw.Sequence, from, n uint64, start bool) []byte {
	switch {
	case form == TokenIDs:
		return v.appendIDs(dst, tokens, from, n)
	case !start || n == 0 || v.start == v.lexicon:
		return v.lexicon.Append(dst, tokens, from, n)
	}
	dst = v.start.Append(dst, tokens, from, 1)
	if n == 1 {
		return dst
	}
	return v.lexicon.Append(append(dst, ' '), tokens, from+1, n-1)
}

// appendIDs appends 1234,5678.
func (v *vocabulary) appendIDs(dst []byte, tokens draw.Sequence, from, n uint64) []byte {
	if n == 0 {
		return dst
	}
	const longest = len("4294967295,")
	dst = slices.Grow(dst, int(n)*longest)
	for i := from; i < from+n; i++ {
		dst = strconv.AppendUint(dst, uint64(v.first)+tokens.Below(i, v.ids), 10)
		dst = append(dst, ',')
	}
	return dst[:len(dst)-1]
}
