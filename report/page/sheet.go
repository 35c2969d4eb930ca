package page

import (
	"bytes"
	"html/template"
)

// Sheet is the style sheet of the page, for other pages that are to look like it.
func Sheet() template.CSS { return template.CSS(style) } //nolint:gosec // it is ours

// SheetPolicy is the Content-Security-Policy of a page that has Sheet, no script, and no network.
func SheetPolicy() string {
	return "default-src 'none'; style-src " + hash(style) + "; base-uri 'none'; form-action 'none'"
}

// Printable drops from text what could make it look like another text: control characters, and characters that change
// its direction.
func Printable(text []byte) []byte { return bytes.Map(printable, text) }
