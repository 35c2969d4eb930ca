// Package secret finds the references to secrets in a plan, env:NAME and file:PATH, and looks their values up. A value
// appears in no message.
package secret

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Lookup returns the value of a secret reference, "env:NAME" or "file:PATH". Its error must not contain the value.
type Lookup func(reference string) (string, error)

// maxSecret is far larger than any key or bundle of certificates.
const maxSecret = 1 << 20

// IsReference reports whether a header's value must be looked up rather than sent.
func IsReference(value string) bool {
	return strings.HasPrefix(value, "env:") || strings.HasPrefix(value, "file:")
}

var reference = regexp.MustCompile(`^(env:[A-Za-z_][A-Za-z0-9_]*|file:.+)$`)

// Problem returns what is wrong with a reference, or "" if nothing is. It never repeats the value, which may be a
// secret.
func Problem(value string) string {
	if !reference.MatchString(value) {
		return "must be env:NAME with letters, digits and underscores, or file:PATH"
	}
	return ""
}

// System is a Lookup that reads this process's environment and files. Relative paths that no plan has
// resolved are relative to the working directory. White space around a file's content is removed, because editors end
// files with a line break.
func System(reference string) (string, error) {
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
	data, err := files.ReadFile(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("the secret's file cannot be read: %w", err)
	}
	return strings.TrimSpace(string(data)), nil
}

// secretWords are words in the names of headers that carry secrets, such as Authorization, X-Api-Key and Set-Cookie.
var secretWords = []string{"key", "apikey", "accesskey", "token", "authtoken", "accesstoken", "secret", "clientsecret",
	"auth", "authorization", "authentication", "password", "passwd", "cookie", "credential", "credentials", "jwt", "bearer"}

// HeaderName reports whether a header probably carries a secret, by the words of its name.
func HeaderName(header string) bool {
	words := strings.FieldsFunc(strings.ToLower(header), func(r rune) bool { return r == '-' || r == '_' })
	return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(secretWords, word) })
}

// secretFields are body fields that probably hold secrets, in lower case. A body cannot hold references to secrets.
var secretFields = []string{"api_key", "apikey", "token", "secret", "password"}

// FieldName reports whether a field of a body probably holds a secret, by its name.
func FieldName(field string) bool { return slices.Contains(secretFields, strings.ToLower(field)) }

// Use is one place at which a plan refers to a secret.
type Use struct {
	// Field that holds the reference, such as "targets[0].api_key".
	Field     string
	Reference string

	form form
}

// form is what a secret must look like.
type form int

const (
	ofHeader form = iota
	ofPEM
	ofUserPassword
)

// Unfit returns why a value cannot be used, without its text. It returns "" if the value can be used or is empty.
func (u Use) Unfit(value string) string {
	switch {
	case value == "":
		return ""
	case u.form == ofPEM && !strings.Contains(value, "-----BEGIN "):
		return u.Reference + " has nothing in PEM: it must have a line such as -----BEGIN CERTIFICATE-----"
	case u.form != ofPEM && !httpguts.ValidHeaderFieldValue(value):
		return u.Reference + " has line breaks or control characters and cannot be sent in a header"
	case u.form == ofUserPassword && !strings.Contains(value, ":"):
		return u.Reference + " must hold a user and a password with a colon between them"
	}
	return ""
}

// Uses returns the places at which a target refers to secrets, except for badly written references, which the plan's
// rules report. path is that of the target.
func Uses(path string, t *spatev1.Target) []Use {
	var uses []Use
	if Problem(t.GetApiKey()) == "" {
		uses = append(uses, Use{path + ".api_key", t.GetApiKey(), ofHeader})
	}
	for _, name := range slices.Sorted(maps.Keys(t.GetHeaders())) {
		if value := t.GetHeaders()[name]; Problem(value) == "" {
			uses = append(uses, Use{path + ".headers[" + strconv.Quote(name) + "]", value, ofHeader})
		}
	}
	return append(uses, connectionUses(path+".connection", t)...)
}

// connectionUses returns the uses in a target's connection. The simulator needs none.
func connectionUses(path string, t *spatev1.Target) (uses []Use) {
	if len(t.GetEndpoints()) == 0 {
		return nil
	}
	c := t.GetConnection()
	for _, u := range []Use{
		{".proxy_auth", c.GetProxyAuth(), ofUserPassword}, {".ca", c.GetCa(), ofPEM},
		{".certificate", c.GetCertificate(), ofPEM},
		{".key", c.GetKey(), ofPEM},
	} {
		if Problem(u.Reference) == "" {
			uses = append(uses, Use{path + u.Field, u.Reference, u.form})
		}
	}
	return uses
}

// Of returns the secret references of a target whose values an agent needs, sorted, without duplicates.
func Of(t *spatev1.Target) []string {
	references := lists.Each(Uses("", t), func(u Use) string { return u.Reference })
	slices.Sort(references)
	return slices.Compact(references)
}
