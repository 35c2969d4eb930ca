package workload

import (
	_ "embed" // the list of words
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/lists"
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

// words are common lowercase English words. Each is one token in the vocabularies of GPT-2, GPT-3.5, GPT-4 and GPT-4o
// and of Llama 2 and 3, both at the start of a text and after a space, so that a text of n of them has n tokens. With
// other vocabularies the server's usage shows the difference.
var words = withSpaces(strings.Fields(wordList))

//go:embed words.txt
var wordList string

// word is a word and the space behind it.
type word struct {
	letters [8]byte
	size    int
}

// withSpaces puts a space behind each word. LexiconWords have at most 7 letters.
func withSpaces(list []string) []word {
	all := make([]word, len(list))
	for i, w := range list {
		all[i].size = copy(all[i].letters[:], w+" ")
	}
	return all
}

// LexiconWords returns the package's own words, which text prompts are made of unless other words are given. The caller
// may keep the list.
func LexiconWords() []string {
	return lists.Each(words, func(w word) string { return string(w.letters[:w.size-1]) })
}

// Default token ids: above the special tokens and within the vocabulary of common models.
const (
	firstTokenID = 1000
	tokenIDs     = 9000
)

// vocabulary is what tokens are drawn from: words in a text prompt, numbers in a prompt of token ids. In both, each
// token is drawn by one number of a sequence.
type vocabulary struct {
	lexicon *lexicon
	start   *lexicon // words at the start of a text
}

// newVocabulary takes the words of a Config.
func newVocabulary(c Config) (*vocabulary, error) {
	for _, words := range [][]string{c.Words, c.FirstWords} {
		if i := slices.Index(words, ""); i >= 0 {
			return nil, fmt.Errorf("workload: word %d of the lexicon is empty", i+1)
		}
	}
	v := &vocabulary{lexicon: newLexicon(c.Words)}
	if v.start = v.lexicon; len(c.FirstWords) > 0 {
		v.start = newLexicon(c.FirstWords)
	}
	return v, nil
}

// size returns the number of different tokens in a form.
func (v *vocabulary) size(form Form) uint64 {
	if form == TokenIDs {
		return tokenIDs
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
		dst = strconv.AppendUint(dst, firstTokenID+tokens.Below(i, tokenIDs), 10)
		dst = append(dst, ',')
	}
	return dst[:len(dst)-1]
}
