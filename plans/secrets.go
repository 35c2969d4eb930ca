package plans

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Lookup returns the value of a secret reference, "env:NAME" or "file:PATH". Its error must not contain the value.
type Lookup func(reference string) (string, error)

// maxSecret is far larger than any key or bundle of certificates. It bounds the reading of files such as /dev/zero.
const maxSecret = 1 << 20

// Secrets looks up each secret reference of the plan once and returns the values by reference. The error is Mistakes
// with the position of each reference whose value is missing, empty or unfit for its place: a header, certificates in
// PEM, or a user and a password. Secrets blocks as lookup does.
func (p *Plan) Secrets(lookup Lookup) (map[string]string, error) {
	values, ms := p.lookUp(lookup)
	if err := ms.OrNil(); err != nil {
		return nil, err
	}
	return values, nil
}

// lookUp looks up each reference once.
func (p *Plan) lookUp(lookup Lookup) (map[string]string, Mistakes) {
	values, failed := make(map[string]string), make(map[string]string)
	var ms Mistakes
	for _, use := range p.references() {
		if _, known := values[use.reference]; !known && failed[use.reference] == "" {
			value, err := secret(lookup, p.placed(use.reference))
			if err != nil {
				failed[use.reference] = err.Error()
			} else {
				values[use.reference] = value
			}
		}
		if problem := cmp.Or(failed[use.reference], use.unfit(values[use.reference])); problem != "" {
			ms = append(ms, p.Mistake(use.field, problem))
		}
	}
	return values, ms
}

// placed returns a reference with the path of its file resolved against the folder of the plan's file.
func (p *Plan) placed(reference string) string {
	if path, is := strings.CutPrefix(reference, "file:"); is {
		return "file:" + p.beside(path)
	}
	return reference
}

func secret(lookup Lookup, reference string) (string, error) {
	value, err := lookup(reference)
	switch {
	case err != nil:
		return "", err
	case value == "":
		return "", fmt.Errorf("%s is empty", reference)
	}
	return value, nil
}

// use is one place at which a plan refers to a secret.
type use struct {
	field, reference string
	form             form
}

// form is what a secret must look like.
type form int

const (
	ofHeader form = iota
	ofPEM
	ofUserPassword
)

// unfit returns why a value cannot be used, without its text. It returns "" if the value can be used or is empty.
func (u use) unfit(value string) string {
	switch {
	case value == "":
		return ""
	case u.form == ofPEM && !strings.Contains(value, "-----BEGIN "):
		return u.reference + " holds nothing in PEM: it must have a line such as -----BEGIN CERTIFICATE-----"
	case u.form != ofPEM && !validHeaderValue(value):
		return u.reference + " holds line breaks or control characters and cannot be sent in a header"
	case u.form == ofUserPassword && !strings.Contains(value, ":"):
		return u.reference + " must hold a user and a password with a colon between them"
	}
	return ""
}

// references returns all uses, except for badly written references, which are reported elsewhere. A simulation needs no
// secrets.
func (p *Plan) references() []use {
	if p.msg.GetSimulation() != nil {
		return nil
	}
	var uses []use
	for i, t := range p.msg.GetTargets() {
		path := fmt.Sprintf("targets[%d]", i)
		if referenceProblem(t.GetApiKey()) == "" {
			uses = append(uses, use{path + ".api_key", t.GetApiKey(), ofHeader})
		}
		for _, name := range sortedKeys(t.GetHeaders()) {
			if value := t.GetHeaders()[name]; referenceProblem(value) == "" {
				uses = append(uses, use{path + ".headers[" + strconv.Quote(name) + "]", value, ofHeader})
			}
		}
		uses = append(uses, connectionUses(path+".connection", t)...)
	}
	return uses
}

// connectionUses returns the uses in a target's connection. The simulator needs none.
func connectionUses(path string, t *spatev1.Target) (uses []use) {
	if len(t.GetEndpoints()) == 0 {
		return nil
	}
	c := t.GetConnection()
	for _, u := range []use{
		{".proxy_auth", c.GetProxyAuth(), ofUserPassword}, {".ca", c.GetCa(), ofPEM},
		{".certificate", c.GetCertificate(), ofPEM},
		{".key", c.GetKey(), ofPEM},
	} {
		if referenceProblem(u.reference) == "" {
			uses = append(uses, use{path + u.field, u.reference, u.form})
		}
	}
	return uses
}

// References returns the secret references of a target whose values an agent needs, sorted, without duplicates.
func References(t *spatev1.Target) []string {
	found := make(map[string]bool)
	if t.GetApiKey() != "" {
		found[t.GetApiKey()] = true
	}
	for _, u := range connectionUses("", t) {
		found[u.reference] = true
	}
	for _, value := range t.GetHeaders() {
		if IsReference(value) {
			found[value] = true
		}
	}
	return sortedKeys(found)
}

// IsReference reports whether a header's value must be looked up rather than sent.
func IsReference(value string) bool {
	return strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:")
}

var reference = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`)

func referenceProblem(value string) string {
	if !reference.MatchString(value) {
		return "must be env:NAME with letters, digits and underscores, or file:PATH"
	}
	return ""
}

// SystemLookup reads references from this process's environment and from files. Relative paths that no plan has
// resolved are relative to the working directory. White space around a file's content is removed, because editors end
// files with a line break.
func SystemLookup(reference string) (string, error) {
	if name, ok := strings.CutPrefix(reference, "env:"); ok {
		value, set := os.LookupEnv(name)
		if !set {
			return "", fmt.Errorf("the environment variable %s is not set: export it before the run", name)
		}
		return value, nil
	}
	path, ok := strings.CutPrefix(reference, "file:")
	if !ok {
		return "", errors.New("a secret is given as env:NAME or file:PATH")
	}
	return readSecret(path)
}

func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the secret's file cannot be read: %w", err)
	}
	defer func() { _ = file.Close() }() // Opened for reading only: a failed close loses nothing.
	data, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("the secret's file cannot be read: %w", err)
	}
	if len(data) > maxSecret {
		return "", fmt.Errorf("the secret's file %s has more than %d bytes", path, maxSecret)
	}
	return strings.TrimSpace(string(data)), nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
