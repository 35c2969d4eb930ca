package access

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const file = `
default: runner
people: {anna: operator, guest: viewer}
tokens:
  ci: {role: runner, secret: "0123456789abcdef"}
  screen: {role: viewer, secret: "fedcba9876543210"}
targets:
  runner: ["*.staging.example.com", 10.0.0.0/24]
`

// plain returns a reference as it is.
func plain(reference string) (string, error) { return reference, nil }

func parsed(t *testing.T) *Policy {
	t.Helper()
	p, err := Parse([]byte(file), plain)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func person(name string) Caller { return Caller{By: name, Proof: Certificate} }

// Each role may do what docs/security.md says, and a name proves nothing unless a certificate or a token does.
func TestRoles(t *testing.T) {
	p := parsed(t)
	ci := Caller{By: "ci", Proof: NamedToken}
	for _, c := range []struct {
		who                            Caller
		submit, own, another, operates bool
	}{
		{person("anna"), true, true, true, true},
		{person("bob"), true, true, false, false},
		{person("guest"), false, false, false, false},
		{ci, true, true, false, false},
		{Caller{By: "screen", Proof: NamedToken}, false, false, false, false},
		{Caller{By: "guest", Proof: Token}, true, true, true, true},
		{Caller{Proof: NoProof}, true, true, false, false},
		{Caller{By: "anna", Proof: NoProof}, true, true, false, false},
		{Caller{By: "anna", Proof: NamedToken}, true, true, false, false},
	} {
		got := []bool{
			p.MaySubmit(c.who) == nil, p.MayEnd(c.who, c.who.String()) == nil, p.MayEnd(c.who, "carl") == nil,
			p.MayOperate(c.who) == nil,
		}
		if want := []bool{c.submit, c.own, c.another, c.operates}; fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v: submit, own, another's, operate are %v, want %v", c.who, got, want)
		}
	}
	if err := p.MayEnd(person("ci"), ci.String()); err == nil {
		t.Error("a person named as a token's holder may stop its runs")
	}
	if (*Policy)(nil).MayEnd(person("bob"), "carl") != nil || (*Policy)(nil).MayOperate(person("bob")) != nil {
		t.Error("without a file, not everything is allowed")
	}
}

func TestHolder(t *testing.T) {
	p := parsed(t)
	if name, ok := p.Holder("0123456789abcdef"); name != "ci" || !ok {
		t.Errorf("ci's secret is of %q, %v", name, ok)
	}
	for _, wrong := range []string{"", "0123456789abcde", "0123456789abcdef0"} {
		if name, ok := p.Holder(wrong); ok {
			t.Errorf("%q is of %q", wrong, name)
		}
	}
}

// Mistakes are named, all at once.
func TestMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"default: admin": `default: "admin": want viewer, runner or operator`,
		"people: {anna: root, bob: operator, carl: ''}": `people: anna: "root": want.*` + "\n" + `people: carl: "": want`,
		"tokens: {ci: {role: runner, secret: short}}":   "tokens: ci: its secret has 5 bytes: want at least 16",
		"targets: {runner: []}":                         "targets: name at least one host",
		"targets: {boss: [a]}":                          `"boss": want viewer`,
		"targets: {runner: ['a b']}":                    "is not a host",
		"persons: {}":                                   "line 1: field persons not found",
		"hello":                                         "line 1: cannot unmarshal !!str `hello`",
		"people: [anna]":                                "line 1: cannot unmarshal !!seq",
		"default: runner\n---\ntargets: {runner: [a]}":  "a second document (---) follows",
		"default: runner\n---\n[":                       "a second document (---) follows",
	} {
		_, err := Parse([]byte(text), plain)
		for part := range strings.SplitSeq(want, ".*\n") {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q", text, err, part)
			}
		}
		if err != nil && strings.Contains(err.Error(), "access.") {
			t.Errorf("%s: %v names a type of Go", text, err)
		}
	}
	if p, err := Parse(nil, plain); err != nil || p.MaySubmit(person("bob")) == nil {
		t.Errorf("an empty file: %v; somebody who is not named is not a viewer", err)
	}
}

func TestTargetsByRole(t *testing.T) {
	p := parsed(t)
	for _, c := range []struct {
		who     string
		target  *spatev1.Target
		allowed bool
	}{
		{"bob", &spatev1.Target{Endpoints: []string{"http://a.staging.example.com:8000"}}, true},
		{"bob", &spatev1.Target{Endpoints: []string{"10.0.0.9:8000"}}, true},
		{"bob", &spatev1.Target{Endpoints: []string{"http://10.0.0.9", "http://10.0.1.9"}}, false},
		{"bob", &spatev1.Target{Endpoints: []string{"http://llm.example.com"}}, false},
		{"anna", &spatev1.Target{Endpoints: []string{"http://llm.example.com"}}, true},
		{"bob", &spatev1.Target{Endpoints: []string{"http://10.0.0.9"},
			Connection: &spatev1.Connection{Proxy: "http://proxy.example.com:3128"}}, false},
		{"bob", &spatev1.Target{Endpoints: []string{"http://10.0.0.9"},
			ServerMetrics: &spatev1.ServerMetrics{Urls: []string{"http://elsewhere.example.com/metrics"}}}, false},
	} {
		err := p.CheckTargets(person(c.who), []*spatev1.Stage{{Target: c.target}})
		if (err == nil) != c.allowed {
			t.Errorf("%s, %v: %v", c.who, c.target, err)
		}
	}
}

// A file that has changed is read again. While it has a mistake, what it said before holds.
func TestFileIsReadAgain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.yaml")
	changed := time.Now()
	write := func(text string) {
		changed = changed.Add(time.Second)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(path, plain, slog.New(slog.DiscardHandler)); err == nil {
		t.Fatal("a file that is not there is opened")
	}
	write("people: {anna: viewer}")
	f, err := Open(path, plain, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	role := func() Role { return f.Policy().RoleOf(person("anna")) }
	if role() != Viewer {
		t.Errorf("anna is a %s, want viewer", role())
	}
	write("people: {anna: operator}")
	if role() != Operator {
		t.Errorf("anna is a %s after the change, want operator", role())
	}
	write("people: {anna: runer}")
	if role() != Operator {
		t.Errorf("anna is a %s after a mistake, want operator", role())
	}
}
