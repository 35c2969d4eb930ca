package api

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"image"
	_ "image/jpeg" // that images of prompts can be read
	_ "image/png"
	"math/bits"
	"strings"
	"unicode/utf8"
)

// tokens collects the tokens of a prompt: the ids of a token array, or the words of a text. It counts them and, if
// configured, hashes them in blocks and keeps their ids. A text and the array of its ids are the same prompt.
type tokens struct {
	count int
	// size is the number of tokens per block. 0: no blocks.
	size   int
	blocks []uint64
	hash   uint64
	fill   int // tokens in the current block
	// keep stores the ids in ids.
	keep bool
	ids  []uint64
}

// add takes one token. The hash of a block covers all tokens up to its end. It uses multiplication and rotation as in
// FxHash, which takes a few cycles per token.
func (t *tokens) add(id uint64) {
	t.count++
	if t.keep {
		t.ids = append(t.ids, id)
	}
	if t.size == 0 {
		return
	}
	t.hash = (bits.RotateLeft64(t.hash, 5) ^ id) * 0x9e3779b97f4a7c15
	if t.fill++; t.fill == t.size {
		t.blocks = append(t.blocks, t.hash)
		t.fill = 0
	}
}

// prompt takes a completions prompt: an array of ids, or a string.
func (t *tokens) prompt(raw json.RawMessage) *Error {
	switch kindOf(raw) {
	case '"':
		if err := t.text(raw); err != nil {
			return BadRequest("prompt " + err.Error())
		}
		return nil
	case '[':
		if !t.array(raw) {
			return BadRequest("prompt is an array with elements that are not token ids: " +
				"batches of prompts are not simulated")
		}
		if t.count == 0 {
			return BadRequest("prompt is empty")
		}
		return nil
	default:
		return BadRequest("prompt is missing, or neither a string nor an array of token ids")
	}
}

// kindOf returns the first byte of a JSON value, 0 if there is none.
func kindOf(raw json.RawMessage) byte {
	raw = bytes.TrimLeft(raw, " \t\r\n")
	if len(raw) == 0 {
		return 0
	}
	return raw[0]
}

// array takes the elements of a valid JSON array. It returns false if an element is not an unsigned integer. It reads
// the bytes directly, because decoding the ids of a long prompt would cost more than all of its frames.
func (t *tokens) array(raw json.RawMessage) bool {
	inside := bytes.TrimSpace(raw)
	inside = bytes.TrimSpace(inside[1 : len(inside)-1])
	if len(inside) == 0 {
		return true
	}
	id := uint64(0)
	for _, b := range inside {
		switch {
		case '0' <= b && b <= '9':
			id = id*10 + uint64(b-'0')
		case b == ',':
			t.add(id)
			id = 0
		case b != ' ' && b != '\t' && b != '\r' && b != '\n':
			return false
		}
	}
	t.add(id)
	return true
}

// conversation takes the words of all messages, then the tokens that a chat template adds.
func (t *tokens) conversation(messages []message, template int) *Error {
	if len(messages) == 0 {
		return BadRequest("messages is missing or empty")
	}
	for i := range messages {
		if err := t.content(messages[i].Content); err != nil {
			return BadRequest(fmt.Sprintf("messages[%d].content %v", i, err))
		}
	}
	for i := range template {
		t.add(uint64(i))
	}
	return nil
}

// content takes the words of a message's content: a string, an array of parts (text and images), or null.
func (t *tokens) content(raw json.RawMessage) error {
	switch kindOf(raw) {
	case '"':
		return t.text(raw)
	case '[':
		return t.parts(raw)
	case 0, 'n':
		return nil
	default:
		return errors.New("is neither a string nor an array of content parts")
	}
}

func (t *tokens) parts(raw json.RawMessage) error {
	var parts []struct {
		Text  string `json:"text"`
		Image struct {
			URL string `json:"url"`
		} `json:"image_url"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return errors.New("is an array with elements that are not content parts")
	}
	for _, p := range parts {
		t.words(p.Text)
		if err := t.image(p.Image.URL); err != nil {
			return err
		}
	}
	return nil
}

// patch is the side of the square of an image that is one token, in pixels, as in Qwen2-VL.
const patch = 28

// image takes the tokens of an image in a data URL. Other images are not fetched, and have none.
func (t *tokens) image(url string) error {
	if !strings.HasPrefix(url, "data:") {
		return nil
	}
	_, encoded, _ := strings.Cut(url, ";base64,")
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return errors.New("has an image that is not base64")
	}
	picture, _, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil {
		return errors.New("has an image that is neither PNG nor JPEG")
	}
	seed := uint64(crc32.ChecksumIEEE(data))
	for i := range (picture.Width + patch - 1) / patch * ((picture.Height + patch - 1) / patch) {
		t.add(seed<<32 + uint64(i))
	}
	return nil
}

// text takes the words of a JSON string. It reads a string of plain ASCII in place.
func (t *tokens) text(raw json.RawMessage) error {
	raw = bytes.TrimSpace(raw)
	if plain(raw) {
		t.plainWords(raw[1 : len(raw)-1])
		return nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return errors.New("is not a string")
	}
	t.words(s)
	return nil
}

// plain reports whether a JSON string is ASCII without escapes.
func plain(raw []byte) bool {
	for _, b := range raw {
		if b >= utf8.RuneSelf || b == '\\' {
			return false
		}
	}
	return true
}

// words takes the words that white space separates.
func (t *tokens) words(s string) {
	for w := range strings.FieldsSeq(s) {
		h := uint32(fnvOffset)
		for i := range len(w) {
			h = (h ^ uint32(w[i])) * fnvPrime
		}
		t.add(wordID(h))
	}
}

// plainWords does the same for plain bytes. In a JSON string, all ASCII white space but the space is escaped.
func (t *tokens) plainWords(s []byte) {
	h, inside := uint32(fnvOffset), false
	for _, b := range s {
		if b != ' ' {
			h, inside = (h^uint32(b))*fnvPrime, true
			continue
		}
		if inside {
			t.add(wordID(h))
			h, inside = fnvOffset, false
		}
	}
	if inside {
		t.add(wordID(h))
	}
}

// The constants of FNV-1a, 32 bits.
const (
	fnvOffset = 2166136261
	fnvPrime  = 16777619
)

// wordID returns the token id of a word: its FNV-1a hash without the lowest bit, which leaves 31 bits, because clients
// read ids as signed.
func wordID(h uint32) uint64 { return uint64(h >> 1) }
