package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// newModel makes the model of a file. Old files do not name BPE.
func newModel(data json.RawMessage) (model, error) {
	if absent(data) {
		return nil, errors.New("it has no model")
	}
	var k kind
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("its model: %w", err)
	}
	switch k.Type {
	case "BPE", "":
		return newBPE(data)
	case "Unigram":
		return newUnigram(data)
	}
	return nil, unknown("model", k.Type)
}

// mostIDs bounds the ids of a vocabulary.
const mostIDs = 1 << 24

// fallback encodes bytes that no token has, each as a token of its own: <0x00> to <0xFF>. Nil: there are no such
// tokens.
type fallback []uint32

// newFallback looks the tokens up. A vocabulary that lacks one has no fallback for texts with that byte, as bytes are
// only encoded so if the vocabulary has them all.
func newFallback(wanted bool, ids map[string]uint32) fallback {
	if !wanted {
		return nil
	}
	f := make(fallback, 256)
	for b := range f {
		id, ok := ids[fmt.Sprintf("<0x%02X>", b)]
		if !ok {
			id = none
		}
		f[b] = id
	}
	return f
}

// none is no id.
const none = ^uint32(0)

// append appends the ids of a text's bytes. False: one of them has no token.
func (f fallback) append(ids []uint32, text string) ([]uint32, bool) {
	if f == nil {
		return ids, false
	}
	for i := range len(text) {
		if f[text[i]] == none {
			return ids, false
		}
	}
	for i := range len(text) {
		ids = append(ids, f[text[i]])
	}
	return ids, true
}

// listed returns a vocabulary by id.
func listed(ids map[string]uint32) ([]string, error) {
	var all []string
	for token, id := range ids {
		if id >= mostIDs {
			return nil, fmt.Errorf("its token %q has the id %d", token, id)
		}
		for int(id) >= len(all) {
			all = append(all, make([]string, len(all)+1)...)
		}
		all[id] = token
	}
	return all, nil
}
