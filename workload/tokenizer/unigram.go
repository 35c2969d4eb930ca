package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram splits a piece into the tokens whose scores have the largest sum.
type unigram struct {
	ids     map[string]uint32
	list    []string
	scores  []float64
	unknown uint32 // none: there is no unknown token
	penalty float64
	longest int // longest token, in bytes
	bytes   fallback
}

// unigramPart is the model in the file.
type unigramPart struct {
	Vocab        [][2]json.RawMessage `json:"vocab"`
	Unknown      *uint32              `json:"unk_id"`
	ByteFallback bool                 `json:"byte_fallback"`
}

func newUnigram(data json.RawMessage) (*unigram, error) {
	var p unigramPart
	if err := json.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("its model: %w", err)
	}
	m := &unigram{ids: make(map[string]uint32, len(p.Vocab)), unknown: none}
	lowest := math.Inf(1)
	for i, entry := range p.Vocab {
		var token string
		var score float64
		if err := errors.Join(json.Unmarshal(entry[0], &token), json.Unmarshal(entry[1], &score)); err != nil {
			return nil, fmt.Errorf("entry %d of its vocabulary: %w", i, err)
		}
		m.ids[token] = uint32(i)
		m.list, m.scores = append(m.list, token), append(m.scores, score)
		m.longest, lowest = max(m.longest, len(token)), min(lowest, score)
	}
	if p.Unknown != nil {
		if int(*p.Unknown) >= len(m.list) {
			return nil, fmt.Errorf("its unknown token has the id %d, but its vocabulary has %d tokens",
				*p.Unknown, len(m.list))
		}
		m.unknown = *p.Unknown
	}
	m.penalty = lowest - 10 // as in the tokenizers library
	m.bytes = newFallback(p.ByteFallback, m.ids)
	return m, nil
}

func (m *unigram) tokens() []string { return m.list }

// step is the last token of the best path to a place in the piece.
type step struct {
	from  int // -1: no path yet
	id    uint32
	score float64
}

// walk finds the best path to each place.
func (m *unigram) walk(piece string) []step {
	best := make([]step, len(piece)+1)
	for i := range best {
		best[i].from = -1
	}
	best[0].from = 0
	for at := 0; at < len(piece); {
		_, size := utf8.DecodeRuneInString(piece[at:])
		single := false
		for length := 1; length <= min(m.longest, len(piece)-at); length++ {
			if id, ok := m.ids[piece[at:at+length]]; ok {
				improve(best, at, at+length, id, m.scores[id])
				single = single || length == size
			}
		}
		if !single {
			improve(best, at, at+size, m.unknown, m.penalty)
		}
		at += size
	}
	return best
}

// improve takes a token if the path over it is better.
func improve(best []step, from, to int, id uint32, score float64) {
	if score += best[from].score; best[to].from < 0 || score > best[to].score {
		best[to] = step{from, id, score}
	}
}

// encode appends the tokens of the best path. Consecutive unknown characters become one unknown token, or their bytes.
func (m *unigram) encode(ids []uint32, piece string) []uint32 {
	steps := m.walk(piece)
	var way []match
	for at := len(piece); at > 0; at = steps[at].from {
		from := steps[at].from
		if n := len(way) - 1; n >= 0 && steps[at].id == m.unknown && steps[way[n].stop].id == m.unknown &&
			m.unknown != none {
			way[n].start = from
			continue
		}
		way = append(way, match{from, at})
	}
	for _, token := range slices.Backward(way) {
		text := piece[token.start:token.stop]
		if id, ok := m.ids[text]; ok {
			ids = append(ids, id)
		} else if all, ok := m.bytes.append(ids, text); ok {
			ids = all
		} else if m.unknown != none {
			ids = append(ids, m.unknown)
		}
	}
	return ids
}
