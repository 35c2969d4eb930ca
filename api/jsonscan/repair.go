package jsonscan

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Repair makes the joined text of several JSON strings valid as the text of one JSON string. Each string was valid
// JSON, so escapes are complete and quotes are escaped. What can still be broken is what the strings split and never
// completed: UTF-8 characters and pairs of escaped surrogates, both of which servers refuse in requests. Repair changes
// text in place and allocates only for invalid UTF-8.
func Repair(text []byte) []byte {
	repairSurrogates(text)
	if utf8.Valid(text) {
		return text
	}
	return []byte(string([]rune(string(text)))) // one U+FFFD for each bad byte, as encoding/json does
}

// repairSurrogates replaces escaped surrogates without their other half by \ufffd.
func repairSurrogates(text []byte) {
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

// escapedUnit returns the UTF-16 code unit of the escape that text starts with. False: text starts with no such escape.
func escapedUnit(text []byte) (rune, bool) {
	if len(text) < len(`\u0000`) || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(string(text[2:6]), 16, 16)
	return rune(unit), err == nil
}
