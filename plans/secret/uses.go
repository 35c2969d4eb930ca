package secret

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
	var references []string
	for _, u := range Uses("", t) {
		references = append(references, u.Reference)
	}
	slices.Sort(references)
	return slices.Compact(references)
}
