package stream

import (
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// However a server echoes a key (whole, encoded, split or in part), a message never shows eight of its characters in a
// row.
func TestEchoedKeysAreMasked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringMatching(`[A-Za-z0-9+/=_"<&%-]{12,60}`).Draw(t, "key")
		s := secretsOf(key, "", nil)
		echo := rapid.SampledFrom([]func(string) string{
			func(k string) string { return k },
			func(k string) string { return k[1:] },
			func(k string) string { return k[:len(k)-1] },
			func(k string) string { return k[:len(k)/2] + "\n" + k[len(k)/2:] },
			func(k string) string { return strings.Join(strings.Split(k, ""), " ") },
			url.QueryEscape, url.PathEscape,
			func(k string) string { return hex.EncodeToString([]byte(k)) },
			func(k string) string { return base64.StdEncoding.EncodeToString([]byte(k)) },
		}).Draw(t, "echo")
		message := s.Clean("invalid key: " + echo(key) + ", sorry")
		for i := 0; i+shortestPiece <= len(key); i++ {
			plain, _ := visible(message)
			if strings.Contains(plain, key[i:i+shortestPiece]) {
				t.Fatalf("%q shows %q of %q", message, key[i:i+shortestPiece], key)
			}
		}
		if decoded, err := base64.StdEncoding.DecodeString(echo(key)); err == nil && string(decoded) == key &&
			strings.Contains(message, echo(key)[:12]) {
			t.Fatalf("%q shows the key in base64", message)
		}
		if !strings.HasPrefix(message, "invalid key: ") {
			t.Fatalf("%q lost what is not a secret", message)
		}
	})
}

// A key in base64 with text before it, as in Basic authorization, is masked at each offset within a base64 group.
func TestKeysInBase64AreMaskedAtEachPlace(t *testing.T) {
	const key = "sk-0123456789abcdef"
	s := secretsOf(key, "", nil)
	for _, before := range []string{"", "u", "us", "use", "user:"} {
		message := s.Clean("authorization: " + base64.StdEncoding.EncodeToString([]byte(before+key+":x")))
		if !strings.Contains(message, masked) {
			t.Errorf("%q: %q", before, message)
		}
	}
}

func TestMessagesAreClean(t *testing.T) {
	s := secretsOf("sk-1234", "", map[string]string{"Authorization": "Basic abcdef", "X-Auth": "sk-1234-long", "Host": "example",
		"X-Key": "1"})
	for message, want := range map[string]string{
		"bad sk-1234-long and sk-1234.": "bad *** and ***.",
		"Basic abcdef, abcdef":          "***, ***",
		"example 1\r\n\t\xff":           "example 1 \ufffd",
		strings.Repeat("é", 400):        strings.Repeat("é", 256),
		"x" + strings.Repeat("é", 400):  "x" + strings.Repeat("é", 255),
	} {
		if got := s.Clean(message); got != want {
			t.Errorf("%q: %q, want %q", message, got, want)
		}
	}
}

// A server's message cannot control the terminal of who reads it.
func TestMessagesControlNothing(t *testing.T) {
	if got := (secrets{}).Clean("a\x1b[31mred\x1b]0;t\x07 \u009b\u202eb\n"); got != "a [31mred ]0;t b" {
		t.Errorf("%q", got)
	}
}
