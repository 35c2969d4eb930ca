package stream

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"html"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"
)

// secrets are what must appear in no message, though servers like to send it back: keys and the values of headers that
// look like keys.
type secrets struct {
	values []string // longest first: one that is a part of another must not keep the other from being found
	forms  string   // all that they may be written as, with zeros between
	pairs  []uint64 // bits of the two bytes that begin a place in forms; nil: there are no secrets
}

// shortestSecret spares messages from being riddled when a header's value is a common word or digit.
const shortestSecret = 4

func secretsOf(c Config) secrets {
	values := withSecret(nil, c.APIKey)
	if c.Connection.ProxyAuth != "" {
		_, password, _ := strings.Cut(c.Connection.ProxyAuth, ":")
		values = withSecret(withSecret(values, c.Connection.ProxyAuth), password)
		values = withSecret(values, base64.StdEncoding.EncodeToString([]byte(c.Connection.ProxyAuth)))
	}
	for name, value := range c.Headers {
		if isSecretHeader(name) {
			values = withSecret(values, value)
			_, credential, _ := strings.Cut(value, " ") // behind "Bearer" or "Basic"
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

// index notes all forms of the secrets, and which pairs of bytes are in them, so that few places of a message are
// looked at twice.
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

// isSecretHeader goes by the name.
func isSecretHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "credential", "password"},
		func(sign string) bool { return strings.Contains(name, sign) })
}

// shortestPiece is how much of a secret is masked at least: a piece of that length is no common word, and what is
// shorter is no help.
const shortestPiece = 8

// HoldsSecret reports whether a text holds a secret of the client's, or a piece of one, as messages mask them. It may
// be called concurrently. A nil Client has no secrets.
func (c *Client) HoldsSecret(text string) bool {
	return c != nil && len(c.secrets.values) > 0 && c.secrets.mask(text) != text
}

// mask hides secrets in a text: as they are, as an echo may have encoded them, and pieces of them, also where something
// that cannot be seen stands between.
func (s secrets) mask(text string) string {
	for _, secret := range s.values {
		text = strings.ReplaceAll(text, secret, masked)
	}
	return s.maskPieces(text)
}

const masked = "***"

// formsOf returns a secret as it may stand in a text. In base64 it begins at one of three places of a group, the parts
// at its ends depend on what stands beside it and are left out.
func formsOf(secret string) []string {
	quoted, _ := json.Marshal(secret) // a string can be
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

// maskPieces hides the pieces of secrets, whatever white space or control characters stand within.
func (s secrets) maskPieces(text string) string {
	plain, places := visible(text)
	least := shortestPiece
	if shortest := s.values[len(s.values)-1]; len(shortest) <= least {
		least = max(len(shortest)-1, shortestSecret)
	}
	var out strings.Builder
	from := 0 // of text that is not written yet
	for i := 0; i+least <= len(plain); {
		n := least
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

// mayBegin reports whether a piece of a secret may begin a text of two bytes or more.
func (s secrets) mayBegin(text string) bool {
	pair := uint16(text[0])<<8 | uint16(text[1])
	return s.pairs[pair/64]&(1<<(pair%64)) != 0
}

// visible returns the bytes of a text that can be seen, and where they stand.
func visible(text string) (plain string, places []int) {
	b := make([]byte, 0, len(text))
	for i := range len(text) {
		if c := text[i]; c > ' ' && c != 0x7f {
			b, places = append(b, c), append(places, i)
		}
	}
	return string(b), places
}

// clean makes a message fit to be shown: no secrets, valid UTF-8 in one line, not too long.
func (s secrets) clean(message string) string {
	if len(s.values) > 0 {
		message = s.mask(message)
	}
	message = strings.Join(strings.Fields(strings.ToValidUTF8(message, "\ufffd")), " ")
	if len(message) <= messageLimit {
		return message
	}
	cut := messageLimit
	for !utf8.RuneStart(message[cut]) {
		cut--
	}
	return message[:cut]
}
