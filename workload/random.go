package workload

import (
	"fmt"
	"slices"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/draw"
)

// Token ids drawn where the plan names none: beyond the special tokens and within the vocabulary of common models.
const (
	defaultFirstID = 1000
	defaultLastID  = 9999
)

// random makes prompts of independent, uniform random tokens. Two requests begin alike only by chance: with the default ids
// the first 16 tokens, the block of a common prefix cache, are the same in one pair of 10^63, so no cache hits that the plan
// did not ask for.
type random struct {
	requests draw.Sequence
	isl, osl uint32
	first    uint32 // first token id
	ids      uint64 // number of token ids
	lexicon  *lexicon
}

// newRandom checks the content and fills in default ids.
func newRandom(c *spatev1.RandomContent, seed uint64, l *lexicon) (*random, error) {
	r := &random{requests: draw.New(seed, "content"), isl: c.GetIsl(), osl: c.GetOsl(), first: c.GetFirstTokenId(), lexicon: l}
	if r.isl == 0 || r.osl == 0 {
		return nil, fmt.Errorf("workload: isl %d and osl %d must both be at least 1", r.isl, r.osl)
	}
	last := c.GetLastTokenId()
	if r.first == 0 {
		r.first = defaultFirstID
	}
	if last == 0 {
		last = defaultLastID
	}
	if last < r.first {
		return nil, fmt.Errorf("workload: no token id lies from first_token_id %d to last_token_id %d: swap them", r.first, last)
	}
	r.ids = uint64(last-r.first) + 1
	return r, nil
}

// Ask returns the fixed lengths.
func (r *random) Ask(uint64, int) (Ask, error) { return Ask{ISL: r.isl, OSL: r.osl, Turns: 1}, nil }

// AppendPrompt appends isl token ids or isl words.
func (r *random) AppendPrompt(dst []byte, q Request) ([]byte, error) {
	tokens := r.requests.Sub(q.Index)
	switch q.Form {
	case TokenIDs:
		return r.appendIDs(dst, tokens), nil
	case Messages:
		dst = append(dst, `[{"role":"user","content":`...)
		return append(r.appendWords(dst, tokens), "}]"...), nil
	default:
		return r.appendWords(dst, tokens), nil
	}
}

// Close does nothing: there is no file.
func (r *random) Close() error { return nil }

// appendIDs appends [1234,5678].
func (r *random) appendIDs(dst []byte, tokens draw.Sequence) []byte {
	const longest = len("4294967295,")
	dst = slices.Grow(dst, int(r.isl)*longest+1)
	before := byte('[')
	for i := range uint64(r.isl) {
		dst = append(dst, before)
		dst = strconv.AppendUint(dst, uint64(r.first)+tokens.Below(i, r.ids), 10)
		before = ','
	}
	return append(dst, ']')
}

// appendWords appends "one two".
func (r *random) appendWords(dst []byte, tokens draw.Sequence) []byte {
	dst = r.lexicon.append(append(dst, '"'), tokens, 0, uint64(r.isl))
	return append(dst, '"')
}
