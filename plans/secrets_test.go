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

func TestSecretsOfConnections(t *testing.T) {
	p := load(t, `
name: connected
targets:
  - name: a
    endpoints: ["https://a"]
    model: m
    connection: {proxy: "http://p:3128", proxy_auth: env:AUTH, ca: file:CA, certificate: env:CERT, key: env:KEY}
  - name: b
    simulator: {}
    connection: {reuse: new}
workloads:
  - random: {isl: 1, osl: 1}
loads:
  - {rate: [1], duration: 1s}
`)
	values := map[string]string{
		"env:AUTH": "user:password", "file:CA": "-----BEGIN CERTIFICATE-----\nsk-a\n",
		"env:CERT": "-----BEGIN CERTIFICATE-----\nsk-b\n",
		"env:KEY":  "-----BEGIN PRIVATE KEY-----\nsk-c\n",
	}
	lookup := func(reference string) (string, error) { return values[reference], nil }
	got, err := p.Secrets(lookup)
	if diff := cmp.Diff(values, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"env:AUTH", "env:CERT", "env:KEY", "file:CA"},
		References(p.Proto().GetTargets()[0])); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	values["env:AUTH"], values["file:CA"], values["env:CERT"] = "sk-password", "sk-a", "-----BEGIN sk-b"
	_, err = p.Secrets(lookup)
	const want = `plan.yaml:7:54: targets[0].connection.proxy_auth: env:AUTH must hold a user and a password with a colon between them
plan.yaml:7:68: targets[0].connection.ca: file:CA holds nothing in PEM: it must have a line such as -----BEGIN CERTIFICATE-----`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if simulated := simulatedTarget(p.msg.GetTargets()[0]); len(References(simulated)) > 0 ||
		simulated.GetConnection() != nil {
		t.Errorf("a simulation would need %v: %v", References(simulated), simulated.GetConnection())
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
		"file too large": {file("large", strings.Repeat("x", maxSecret+1)), "", "more than 1048576 bytes"},
		"endless file":   {"file:/dev/zero", "", "more than 1048576 bytes"},
		"no reference":   {"sk-secret", "", "env:NAME or file:PATH"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := SystemLookup(test.reference)
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

func TestEmptySecretIsMissing(t *testing.T) {
	_, err := load(t, secretive).Secrets(func(string) (string, error) { return "", nil })
	if err == nil || !strings.Contains(err.Error(), "plan.yaml:7:14: targets[0].api_key: env:SPATE_TEST_KEY is empty") {
		t.Errorf("got %v", err)
	}
}

// TestLoadLooksUp: Load reports a missing secret together with all other mistakes, and a badly written reference once.
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
