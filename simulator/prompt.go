package simulator

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// promptTokens counts a completions prompt: the ids of a token array, the words of a string.
func promptTokens(raw json.RawMessage) (int, *apiError) {
	switch kindOf(raw) {
	case '"':
		n, err := stringWords(raw)
		if err != nil {
			return 0, badRequest("prompt " + err.Error())
		}
		return n, nil
	case '[':
		n, ok := countIDs(raw)
		if !ok {
			return 0, badRequest("prompt is an array that holds something else than token ids: batches of prompts are not simulated")
		}
		if n == 0 {
			return 0, badRequest("prompt is empty")
		}
		return n, nil
	default:
		return 0, badRequest("prompt is missing, or neither a string nor an array of token ids")
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

// countIDs counts the elements of a valid JSON array. It is false if one of them is not an integer of digits alone. It reads the bytes
// only: decoding the ids of a long prompt would cost more than all of its frames.
func countIDs(raw json.RawMessage) (int, bool) {
	inside := bytes.TrimSpace(raw)
	inside = bytes.TrimSpace(inside[1 : len(inside)-1])
	if len(inside) == 0 {
		return 0, true
	}
	n := 1
	for _, b := range inside {
		switch b {
		case '0', '1', '2', '3', '4', '5', '6', '7', '8', '9', ' ', '\t', '\r', '\n':
		case ',':
			n++
		default:
			return 0, false
		}
	}
	return n, true
}

// contentWords counts the words of a message's content: a string, an array of parts of which the text counts, or null.
func contentWords(raw json.RawMessage) (int, error) {
	switch kindOf(raw) {
	case '"':
		return stringWords(raw)
	case '[':
		return partsWords(raw)
	case 0, 'n':
		return 0, nil
	default:
		return 0, errors.New("is neither a string nor an array of content parts")
	}
}

func partsWords(raw json.RawMessage) (int, error) {
	var parts []struct {
		Text string `json:"text"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return 0, errors.New("is an array that holds something else than content parts")
	}
	n := 0
	for _, p := range parts {
		n += words(p.Text)
	}
	return n, nil
}

func stringWords(raw json.RawMessage) (int, error) {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return 0, errors.New("is not a string")
	}
	return words(s), nil
}

// words counts what white space separates.
func words(s string) int {
	n := 0
	for range strings.FieldsSeq(s) {
		n++
	}
	return n
}
