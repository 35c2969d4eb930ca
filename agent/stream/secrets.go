package stream

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode/utf8"
)

// secrets are what must appear in no message, though servers like to send it back: keys and the values of headers that look
// like keys.
type secrets []string

// shortestSecret spares messages from being riddled when a header's value is a common word or digit.
const shortestSecret = 4

func secretsOf(c Config) secrets {
	s := secrets{}.with(c.APIKey)
	if c.Connection.ProxyAuth != "" {
		_, password, _ := strings.Cut(c.Connection.ProxyAuth, ":")
		s = s.with(c.Connection.ProxyAuth).with(password).with(base64.StdEncoding.EncodeToString([]byte(c.Connection.ProxyAuth)))
	}
	for name, value := range c.Headers {
		if isSecretHeader(name) {
			s = s.with(value)
			_, credential, _ := strings.Cut(value, " ") // behind "Bearer" or "Basic"
			s = s.with(credential)
		}
	}
	// Longest first: a secret that is a part of another must not keep the other from being found.
	slices.SortFunc(s, func(a, b string) int { return len(b) - len(a) })
	return s
}

func (s secrets) with(value string) secrets {
	if value = strings.TrimSpace(value); len(value) < shortestSecret {
		return s
	}
	return append(s, value)
}

// isSecretHeader goes by the name.
func isSecretHeader(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"auth", "key", "token", "secret", "cookie", "credential", "password"},
		func(sign string) bool { return strings.Contains(name, sign) })
}

// clean makes a message fit to be shown: no secrets, valid UTF-8 in one line, not too long.
func (s secrets) clean(message string) string {
	for _, secret := range s {
		message = strings.ReplaceAll(message, secret, "***")
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
