package stream

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spate-load/spate/plans/secret"
)

// This file masks secrets in what servers send, which often echo them, before it gets into messages and results.

// secrets are values that must not appear in messages: keys, and values of headers whose names suggest a secret. It is
// safe for concurrent use.
type secrets struct {
	values []string // longest first: masking a value that is part of another would hide the other
	forms  string   // all encodings of the values, separated by zero bytes
	pairs  []uint64 // bitmap of the two-byte sequences in forms; nil: there are no secrets
}

// shortestSecret is the shortest value that is masked. Without it, a header's value that is a common word or a digit
// would be masked all over a message.
const shortestSecret = 4

// messageLimit is the longest message that Clean returns, in bytes.
const messageLimit = 512

// secretsOf returns the secrets of a target: its key, the proxy's "user:password", and those in headers. Each may be
// empty.
func secretsOf(key, proxyAuth string, headers map[string]string) secrets {
	values := withSecret(nil, key)
	if proxyAuth != "" {
		_, password, _ := strings.Cut(proxyAuth, ":")
		values = withSecret(withSecret(values, proxyAuth), password)
		values = withSecret(values, base64.StdEncoding.EncodeToString([]byte(proxyAuth)))
	}
	for name, value := range headers {
		if secret.HeaderName(name) {
			values = withSecret(values, value)
			_, credential, _ := strings.Cut(value, " ") // after "Bearer" or "Basic"
			values = withSecret(values, credential)
		}
	}
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	s := secrets{values: values}
	if len(values) > 0 {
		s.index()
	}
	return s
}

func withSecret(values []string, value string) []string {
	if value = strings.TrimSpace(value); len(value) < shortestSecret {
		return values
	}
	return append(values, value)
}

// index collects all forms of the secrets, and the pairs of bytes in them, so that most positions of a message need
// only one look-up.
func (s *secrets) index() {
	var all []string
	for _, value := range s.values {
		all = append(all, formsOf(value)...)
	}
	s.forms = strings.Join(all, "\x00")
	s.pairs = make([]uint64, 1<<16/64)
	for i := range len(s.forms) - 1 {
		pair := uint16(s.forms[i])<<8 | uint16(s.forms[i+1])
		s.pairs[pair/64] |= 1 << (pair % 64)
	}
}

// shortestPiece is the shortest piece that is masked if all secrets are longer. A piece of that length is unlikely to
// be a common word, and a shorter one does not help an attacker.
const shortestPiece = 8

// Held reports whether a text contains one of the secrets, or a piece that would be masked in a message.
func (s secrets) Held(text string) bool { return len(s.values) > 0 && s.mask(text) != text }

// mask masks secrets in a text: verbatim, encoded as an echo may have encoded them, and in pieces, also with invisible
// characters in between.
func (s secrets) mask(text string) string {
	for _, secret := range s.values {
		text = strings.ReplaceAll(text, secret, masked)
	}
	return s.maskPieces(text)
}

const masked = "***"

// formsOf returns the encodings in which a secret may appear in a text. In base64 a secret can start at each of three
// offsets within a group; the encoded characters at its ends depend on the neighbouring bytes and are left out.
func formsOf(secret string) []string {
	quoted, _ := json.Marshal(secret) // cannot fail for a string
	forms := []string{
		secret, url.QueryEscape(secret), url.PathEscape(secret), strings.Trim(string(quoted), `"`),
		html.EscapeString(secret),
		hex.EncodeToString([]byte(secret)), strings.ToUpper(hex.EncodeToString([]byte(secret))),
	}
	for skip := range 3 {
		if part := secret[min(skip, len(secret)):]; len(part) >= shortestPiece {
			part = part[:len(part)/3*3]
			forms = append(forms, base64.StdEncoding.EncodeToString([]byte(part)),
				base64.URLEncoding.EncodeToString([]byte(part)))
		}
	}
	slices.Sort(forms)
	return slices.Compact(forms)
}

// maskPieces masks the pieces of secrets, even with white space or control characters within them.
func (s secrets) maskPieces(text string) string {
	plain, places := visible(text)
	minimum := shortestPiece
	if shortest := s.values[len(s.values)-1]; len(shortest) <= minimum {
		minimum = max(len(shortest)-1, shortestSecret)
	}
	var out strings.Builder
	from := 0 // start of the part of text not written yet
	for i := 0; i+minimum <= len(plain); {
		n := minimum
		if !s.mayBegin(plain[i:]) || !strings.Contains(s.forms, plain[i:i+n]) {
			i++
			continue
		}
		for i+n < len(plain) && strings.Contains(s.forms, plain[i:i+n+1]) {
			n++
		}
		out.WriteString(text[from:places[i]])
		out.WriteString(masked)
		from = places[i+n-1] + 1
		i += n
	}
	out.WriteString(text[from:])
	return out.String()
}

// mayBegin reports whether a text of two bytes or more may start with a piece of a secret.
func (s secrets) mayBegin(text string) bool {
	pair := uint16(text[0])<<8 | uint16(text[1])
	return s.pairs[pair/64]&(1<<(pair%64)) != 0
}

// visible returns the bytes of a text that are neither white space nor control characters, and their indices.
func visible(text string) (plain string, places []int) {
	b := make([]byte, 0, len(text))
	for i := range len(text) {
		if c := text[i]; c > ' ' && c != 0x7f {
			b, places = append(b, c), append(places, i)
		}
	}
	return string(b), places
}

// unprintable reports whether a character is a space, or could control a terminal or turn the direction of text.
func unprintable(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }

// Clean makes a message fit for display: no secrets, no control characters, valid UTF-8 in one line, at most
// messageLimit bytes.
func (s secrets) Clean(message string) string {
	if len(s.values) > 0 {
		message = s.mask(message)
	}
	message = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(message, "\ufffd"), unprintable), " ")
	if len(message) <= messageLimit {
		return message
	}
	cut := messageLimit
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut]
}
