package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSystem(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return "file:" + path
	}
	t.Setenv("SPATE_TEST_SET", "value")
	tests := map[string]struct{ reference, value, problem string }{
		"env":            {"env:SPATE_TEST_SET", "value", ""},
		"env unset":      {"env:SPATE_TEST_UNSET", "", "the environment variable SPATE_TEST_UNSET is not set"},
		"file":           {file("key", "value\n"), "value", ""},
		"file missing":   {"file:" + filepath.Join(dir, "none"), "", "no such file"},
		"file a folder":  {"file:" + dir, "", "is a directory"},
		"file too large": {file("large", strings.Repeat("x", maxSecret+1)), "", "more than 1048576 bytes"},
		"endless file":   {"file:/dev/zero", "", "is a device"},
		"no reference":   {"sk-secret", "", "env:NAME or file:PATH"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := System(test.reference)
			if got != test.value || (err != nil) != (test.problem != "") || err != nil &&
				!strings.Contains(err.Error(), test.problem) {
				t.Errorf("got %q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "sk-secret") {
				t.Error("a secret is in the message")
			}
		})
	}
}

// TestHeaderNames: words of a name, not letters in it, tell that a header carries a secret.
func TestHeaderNames(t *testing.T) {
	for name, want := range map[string]bool{
		"Authorization": true, "X-Api-Key": true, "Set-Cookie": true, "x-goog-authtoken": true, "Ocp-Apim-Subscription-Key": true,
		"X-Auth-Token": true, "apikey": true, "X-Amz-Security-Token": true, "client_secret": true,
		"x-portkey-provider": false, "X-Author": false, "x-keyword": false, "x-tokens-per-minute": false, "X-Team": false,
	} {
		if HeaderName(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}
