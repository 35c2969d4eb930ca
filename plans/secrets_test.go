package plans

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const secretive = `
name: secretive
targets:
  - name: a
    endpoints: ["http://a"]
    model: m
    api_key: env:SPATE_TEST_KEY
    headers: {X-Org: file:ORG, X-Plain: text}
  - name: b
    endpoints: ["http://b"]
    model: m
    headers:
      Authorization: env:SPATE_TEST_KEY
workloads:
  - random: {isl: 1, osl: 1}
loads:
  - {rate: [1], duration: 1s}
`

func TestSecrets(t *testing.T) {
	p := load(t, secretive)
	asked := 0
	got, err := p.Secrets(func(reference string) (string, error) {
		asked++
		return "value of " + reference, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"env:SPATE_TEST_KEY": "value of env:SPATE_TEST_KEY", "file:ORG": "value of file:ORG"}
	if diff := cmp.Diff(want, got); diff != "" || asked != 2 {
		t.Errorf("asked %d times (-want +got):\n%s", asked, diff)
	}
	if diff := cmp.Diff([]string{"env:SPATE_TEST_KEY", "file:ORG"}, References(p.Proto().GetTargets()[0])); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
}

func TestSecretsMissing(t *testing.T) {
	values := map[string]string{"file:ORG": "sk-secret\r\nInjected: y"}
	_, err := load(t, secretive).Secrets(func(reference string) (string, error) {
		if value, ok := values[reference]; ok {
			return value, nil
		}
		return "", errors.New("not there")
	})
	const want = `plan.yaml:7:14: targets[0].api_key: not there
plan.yaml:8:22: targets[0].headers["X-Org"]: file:ORG holds line breaks or control characters and cannot be sent in a header
plan.yaml:13:22: targets[1].headers["Authorization"]: not there`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func TestSystemLookup(t *testing.T) {
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
		"file too large": {file("large", strings.Repeat("x", maxSecret+1)), "", "more than 65536 bytes"},
		"endless file":   {"file:/dev/zero", "", "more than 65536 bytes"},
		"no reference":   {"sk-secret", "", "env:NAME or file:PATH"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := SystemLookup(test.reference)
			if got != test.value || (err != nil) != (test.problem != "") || err != nil && !strings.Contains(err.Error(), test.problem) {
				t.Errorf("got %q, %v", got, err)
			}
			if err != nil && strings.Contains(err.Error(), "sk-secret") {
				t.Error("a secret is in the message")
			}
		})
	}
}

func TestEmptySecretIsMissing(t *testing.T) {
	_, err := load(t, secretive).Secrets(func(string) (string, error) { return "", nil })
	if err == nil || !strings.Contains(err.Error(), "plan.yaml:7:14: targets[0].api_key: env:SPATE_TEST_KEY is empty") {
		t.Errorf("got %v", err)
	}
}

// TestLoadLooksUp: a missing secret is told of together with all else, a badly written reference once.
func TestLoadLooksUp(t *testing.T) {
	text := strings.NewReplacer("rate: [1]", "rate: [-1]", "file:ORG", "file:").Replace(secretive)
	lookup := func(reference string) (string, error) { return "", errors.New(reference + " is not there") }
	_, err := Load("plan.yaml", []byte(text), Options{Lookup: lookup})
	const want = `plan.yaml:7:14: targets[0].api_key: env:SPATE_TEST_KEY is not there
plan.yaml:8:22: targets[0].headers["X-Org"]: must be env:NAME with letters, digits and underscores, or file:PATH
plan.yaml:13:22: targets[1].headers["Authorization"]: env:SPATE_TEST_KEY is not there
plan.yaml:17:13: loads[0].rate[0]: must be greater than 0 and at most 10000000, got -1`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}
