package tokenizer

import (
	"container/heap"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// bpe merges adjacent pairs, the pair that comes first in the list of merges first, until no pair is in the list.
type bpe struct {
	ids          map[string]uint32
	list         []string
	merges       map[[2]uint32]merge
	unknown      uint32 // id for characters without a token; none: such characters are dropped
	fuse         bool   // consecutive unknown characters are one token
	bytes        fallback
	ignoreMerges bool // a piece that is a token stays whole, whatever the merges would make of it
}

// merge is the result of merging a pair.
type merge struct {
	rank int
	id   uint32
}

// bpePart is the model in the file.
type bpePart struct {
	Vocab        map[string]uint32 `json:"vocab"`
	Merges       []mergePart       `json:"merges"`
	Dropout      *float64          `json:"dropout"`
	Unknown      *string           `json:"unk_token"`
	Prefix       *string           `json:"continuing_subword_prefix"`
	Suffix       *string           `json:"end_of_word_suffix"`
	Fuse         bool              `json:"fuse_unk"`
	ByteFallback bool              `json:"byte_fallback"`
	IgnoreMerges bool              `json:"ignore_merges"`
}

// mergePart is a pair of tokens, written as ["a", "b"] or "a b".
type mergePart [2]string

// UnmarshalJSON implements json.Unmarshaler.
func (m *mergePart) UnmarshalJSON(data []byte) error {
	var pair [2]string
	if json.Unmarshal(data, &pair) == nil {
		*m = pair
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	left, right, ok := strings.Cut(text, " ")
	if !ok {
		return fmt.Errorf("merge %q is not a pair of tokens", text)
	}
	*m = mergePart{left, right}
	return nil
}

func newBPE(data json.RawMessage) (*bpe, error) {
	var p bpePart
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("its model: %w", err)
	}
	if p.Dropout != nil && *p.Dropout != 0 || p.Prefix != nil && *p.Prefix != "" || p.Suffix != nil && *p.Suffix != "" {
		return nil, errors.New("its BPE model has a dropout, a subword prefix or a word suffix, " +
			"which are not supported: set the target's tokenizer to server or usage")
	}
	m := &bpe{
		ids: p.Vocab, merges: make(map[[2]uint32]merge, len(p.Merges)), unknown: none, fuse: p.Fuse,
		bytes: newFallback(p.ByteFallback, p.Vocab), ignoreMerges: p.IgnoreMerges,
	}
	if p.Unknown != nil {
		id, ok := p.Vocab[*p.Unknown]
		if !ok {
			return nil, fmt.Errorf("its unknown token %q is not in the vocabulary", *p.Unknown)
		}
		m.unknown = id
	}
	var err error
	if m.list, err = tokensByID(p.Vocab); err != nil {
		return nil, err
	}
	return m, m.addMerges(p.Merges)
}

// addMerges looks up the tokens of all merges.
func (m *bpe) addMerges(all []mergePart) error {
	for rank, pair := range all {
		left, ok1 := m.ids[pair[0]]
		right, ok2 := m.ids[pair[1]]
		whole, ok3 := m.ids[pair[0]+pair[1]]
		if !ok1 || !ok2 || !ok3 {
			return fmt.Errorf("its merge %d of %q and %q has a token that is not in the vocabulary",
				rank, pair[0], pair[1])
		}
		m.merges[[2]uint32{left, right}] = merge{rank, whole}
	}
	return nil
}

func (m *bpe) tokens() []string { return m.list }

func (m *bpe) encode(ids []uint32, piece string) []uint32 {
	if m.ignoreMerges {
		if id, ok := m.ids[piece]; ok {
			return append(ids, id)
		}
	}
	return m.merge(ids, m.symbols(piece))
}

// symbols returns the ids of a piece's characters.
func (m *bpe) symbols(piece string) []uint32 {
	ids := make([]uint32, 0, len(piece))
	pending := false // the last symbol is an unknown token that the next one may fuse with
	for i := 0; i < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[i:])
		character := piece[i : i+size]
		i += size
		if id, known := m.ids[character]; known {
			ids, pending = append(ids, id), false
			continue
		}
		if all, ok := m.bytes.append(ids, character); ok {
			ids, pending = all, false
			continue
		}
		if fused := pending && m.fuse; !fused && m.unknown != none {
			ids, pending = append(ids, m.unknown), true
		}
	}
	return ids
}

// link is a symbol in the linked list of remaining symbols.
type link struct {
	id           uint32
	before, next int // -1: none
	gone         bool
}

// candidate is a pair that can be merged: the symbol at a place and the next one, as they were when the pair was found.
type candidate struct {
	merge
	at    int
	left  uint32
	right uint32
}

// candidates is a heap. The merge that comes first in the list comes first; among equal merges, the leftmost.
type candidates []candidate

func (c candidates) Len() int { return len(c) }
func (c candidates) Less(i, j int) bool {
	if c[i].rank != c[j].rank {
		return c[i].rank < c[j].rank
	}
	return c[i].at < c[j].at
}
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }

// Push implements heap.Interface.
func (c *candidates) Push(x any) { *c = append(*c, x.(candidate)) } //nolint:forcetypeassert // nothing else is pushed

// Pop implements heap.Interface.
func (c *candidates) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}

// merge appends the symbols that remain after all pairs are merged.
func (m *bpe) merge(ids, symbols []uint32) []uint32 {
	if len(symbols) < 2 {
		return append(ids, symbols...)
	}
	links := make([]link, len(symbols))
	for i, id := range symbols {
		links[i] = link{id: id, before: i - 1, next: i + 1}
	}
	links[len(links)-1].next = -1
	var queue candidates
	for i := range links {
		m.offer(&queue, links, i)
	}
	for len(queue) > 0 {
		c := heap.Pop(&queue).(candidate) //nolint:forcetypeassert // nothing else is pushed
		l := &links[c.at]
		if l.gone || l.id != c.left || l.next < 0 || links[l.next].id != c.right {
			continue // one of the two was merged with another
		}
		m.join(links, c)
		m.offer(&queue, links, c.at)
		m.offer(&queue, links, l.before)
	}
	for i := 0; i >= 0; i = links[i].next {
		ids = append(ids, links[i].id)
	}
	return ids
}

// join merges a pair.
func (m *bpe) join(links []link, c candidate) {
	l := &links[c.at]
	right := &links[l.next]
	right.gone = true
	l.id, l.next = c.id, right.next
	if l.next >= 0 {
		links[l.next].before = c.at
	}
}

// offer adds the pair at a place to the queue, if it can be merged.
func (m *bpe) offer(queue *candidates, links []link, at int) {
	if at < 0 || links[at].next < 0 {
		return
	}
	left, right := links[at].id, links[links[at].next].id
	if found, ok := m.merges[[2]uint32{left, right}]; ok {
		heap.Push(queue, candidate{found, at, left, right})
	}
}
