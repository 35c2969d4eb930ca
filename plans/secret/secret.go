// Package secret finds the references to secrets in a plan, env:NAME and file:PATH, and looks their values up. A value
// appears in no message.
package secret

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/spate-load/spate/internal/files"
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

// Problem returns what is wrong with a reference, or "" if nothing is. It never repeats the value, which may be a secret.
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
