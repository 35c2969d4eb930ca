package secret

import (
	"slices"
	"strings"
)

// secretWords occur in the names of headers that carry secrets, such as Authorization, X-Api-Key and Set-Cookie. Plans
// are kept with results, so a false match does less harm than a missed secret.
var secretWords = []string{"key", "token", "secret", "auth", "password", "cookie"}

// HeaderName reports whether a header probably carries a secret, by its name.
func HeaderName(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(header, word) })
}

// secretFields are body fields that probably hold secrets, in lower case. A body cannot hold references to secrets.
var secretFields = []string{"api_key", "apikey", "token", "secret", "password"}

// FieldName reports whether a field of a body probably holds a secret, by its name.
func FieldName(field string) bool { return slices.Contains(secretFields, strings.ToLower(field)) }
