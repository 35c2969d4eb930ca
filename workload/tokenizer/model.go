package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
)

// newModel returns the model of a file. Old files do not name BPE.
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
	return nil, unsupported("model", k.Type)
}

// maxIDs bounds the ids of a vocabulary.
const maxIDs = 1 << 24

// fallback maps each byte to the id of its token, <0x00> to <0xFF>. It encodes text that has no token. Nil: there is no
// fallback.
type fallback []uint32

// newFallback looks up the byte tokens. The vocabulary may lack some: a text that contains such a byte has no fallback.
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

// none stands for the lack of an id.
const none = ^uint32(0)

// append appends the ids of a text's bytes. False: one of the bytes has no token, and nothing is appended.
func (f fallback) append(ids []uint32, text string) ([]uint32, bool) {
	if f == nil {
		return ids, false
	}
	all := ids
	for _, b := range []byte(text) {
		if f[b] == none {
			return ids, false
		}
		all = append(all, f[b])
	}
	return all, true
}

// tokensByID returns the tokens of a vocabulary by id.
func tokensByID(ids map[string]uint32) ([]string, error) {
	var all []string
	for token, id := range ids {
		if id >= maxIDs {
			return nil, fmt.Errorf("its token %q has the id %d: ids must be below %d", token, id, maxIDs)
		}
		for int(id) >= len(all) {
			all = append(all, make([]string, len(all)+1)...)
		}
		all[id] = token
	}
	return all, nil
}
