package stream

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// mend makes joined text of JSON strings sound as the text of one JSON string. It was walked over by the cursor or by
// encoding/json, so its escapes are whole and its quotes escaped. What is left is what frames may have split and never
// completed: characters in UTF-8 and pairs of escaped surrogates, both of which servers refuse in requests. It changes
// text in place; only broken UTF-8 can take new memory.
func mend(text []byte) []byte {
	pair(text)
	if utf8.Valid(text) {
		return text
	}
	return []byte(string([]rune(string(text)))) // each bad byte for itself, as encoding/json does
}

// pair replaces escaped surrogates without their other half by \ufffd.
func pair(text []byte) {
	const length = len(`\ud83d`)
	for i := 0; ; {
		n := bytes.IndexByte(text[i:], '\\')
		if n < 0 {
			return
		}
		i += n
		unit, ok := escapedUnit(text[i:])
		if !ok {
			i += len(`\n`)
			continue
		}
		if utf16.IsSurrogate(unit) {
			second, _ := escapedUnit(text[i+length:])
			if utf16.DecodeRune(unit, second) == utf8.RuneError {
				copy(text[i:], `\ufffd`)
			} else {
				i += length
			}
		}
		i += length
	}
}

// escapedUnit returns the UTF-16 code unit that an escape at the begin of a text means. False: there is no such escape.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
