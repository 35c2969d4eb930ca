package plans

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/secret"
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
	if diff := cmp.Diff([]string{"env:SPATE_TEST_KEY", "file:ORG"}, secret.Of(p.Proto().GetTargets()[0])); diff != "" {
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
plan.yaml:8:22: targets[0].headers["X-Org"]: file:ORG has line breaks or control characters and cannot be sent in a header
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
		secret.Of(p.Proto().GetTargets()[0])); diff != "" {
		t.Errorf("references (-want +got):\n%s", diff)
	}
	values["env:AUTH"], values["file:CA"], values["env:CERT"] = "sk-password", "sk-a", "-----BEGIN sk-b"
	_, err = p.Secrets(lookup)
	const want = `plan.yaml:7:54: targets[0].connection.proxy_auth: env:AUTH must hold a user and a password with a colon between them
plan.yaml:7:68: targets[0].connection.ca: file:CA has nothing in PEM: it must have a line such as -----BEGIN CERTIFICATE-----`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if simulated := defaults.SimulatedTarget(p.msg.GetTargets()[0]); len(secret.Of(simulated)) > 0 ||
		simulated.GetConnection() != nil {
		t.Errorf("a simulation would need %v: %v", secret.Of(simulated), simulated.GetConnection())
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
