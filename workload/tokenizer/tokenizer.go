// Package tokenizer counts tokens with a model's own tokenizer, read from a Hugging Face tokenizer.json.
//
// It supports the parts that the tokenizers of today's generating models are made of: BPE over bytes (GPT-2, Llama 3,
// Qwen, DeepSeek) and over characters (Llama 2, Mistral, Gemma), and Unigram, with their usual normalizers and
// pre-tokenizers. It refuses a file with any other part, so that it never counts approximately. It does not count
// tokens that a server adds to a prompt. Counts can differ from the server's only in texts with characters that are
// newer than the Unicode tables of Go or of the server.
//
// The package reads one file and keeps no other state. The submitter of a run calls it to find the words that prompts
// are made of and to count the prompts of datasets. Agents do not have the file.
package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/spate-load/spate/internal/files"
)

// Tokenizer splits text into tokens. It is safe for concurrent use.
type Tokenizer struct {
	model      model
	normalize  normalizer
	split      splitter
	raw        *catalog // added tokens that are searched for in the raw text
	normalized *catalog // added tokens that are searched for after normalization
}

// model turns pieces of text into token ids.
type model interface {
	// encode appends the ids of a piece.
	encode(ids []uint32, piece string) []uint32
	// tokens returns the vocabulary by id. Ids without a token are empty.
	tokens() []string
}

// document is a tokenizer.json without its post-processing parts.
type document struct {
	Added        []added         `json:"added_tokens"`
	Normalizer   json.RawMessage `json:"normalizer"`
	PreTokenizer json.RawMessage `json:"pre_tokenizer"`
	Model        json.RawMessage `json:"model"`
}

// maxBytes is the maximum size of the file. Files of the largest vocabularies have a fifth of it.
const maxBytes = 256 << 20

// Open reads a tokenizer.json. Errors name the file and the unknown part.
func Open(path string) (*Tokenizer, error) {
	data, err := files.ReadFile(path, maxBytes)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w: name a tokenizer.json", err)
	}
	t, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", path, err)
	}
	return t, nil
}

// parse reads the text of a tokenizer.json.
func parse(data []byte) (*Tokenizer, error) {
	var d document
	if err := json.Unmarshal(data, &d); err != nil {
		return nil, fmt.Errorf("it is not a tokenizer.json: %w", err)
	}
	var t Tokenizer
	var err error
	if t.model, err = newModel(d.Model); err != nil {
		return nil, err
	}
	if t.normalize, err = newNormalizer(d.Normalizer); err != nil {
		return nil, err
	}
	if t.split, err = newSplitter(d.PreTokenizer); err != nil {
		return nil, err
	}
	t.raw, t.normalized = newCatalogs(d.Added, t.normalize)
	return &t, nil
}

// Count returns the number of tokens of a text by itself. It returns an error if the text is not UTF-8, because then
// there is no right answer, or if a pattern of the tokenizer takes too long on it.
func (t *Tokenizer) Count(text string) (n int, err error) {
	defer tooSlow(&err)
	if !utf8.ValidString(text) {
		return 0, fmt.Errorf("tokenizer: %.40q is not UTF-8", text)
	}
	return len(t.encode(text)), nil
}

// encode returns the ids of a text's tokens.
func (t *Tokenizer) encode(text string) []uint32 {
	var ids []uint32
	first := true
	t.raw.cut(text, func(part string, id uint32, token bool) {
		if token {
			ids, first = append(ids, id), false
			return
		}
		t.normalized.cut(t.normalize(part), func(part string, id uint32, token bool) {
			if token {
				ids = append(ids, id)
			} else {
				ids = t.plain(ids, part, first)
			}
			first = false
		})
	})
	return ids
}

// plain appends the ids of normalized text that holds no added token. first: the text is the start of the whole text.
func (t *Tokenizer) plain(ids []uint32, text string, first bool) []uint32 {
	for _, p := range t.split([]piece{{text, first}}) {
		if p.text != "" {
			ids = t.model.encode(ids, p.text)
		}
	}
	return ids
}

// kind is the type of a part, as the file names it.
type kind struct {
	Type string `json:"type"`
}

// absent reports whether the file lacks a part.
func absent(part json.RawMessage) bool { return len(part) == 0 || string(part) == "null" }

// unsupported returns the error for a part that this package does not support.
func unsupported(what, name string) error {
	return fmt.Errorf("its %s %q is not supported: set the target's tokenizer to server or usage", what, name)
}

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
