package words

import (
	"fmt"
	"html/template"
	"strings"
)

// site is the address of the folder docs on the web, so that links work in a terminal and in a mailed page.
const site = "https://github.com/spate-load/spate/blob/main/docs/"

// DocURL returns the address of a page, such as "verdicts.md", or of a section of it. section is the heading's anchor.
// Empty: the page.
func DocURL(page, section string) string { return strings.TrimSuffix(site+page+"#"+section, "#") }

// Linked returns a text as HTML in which addresses of the documentation are links.
func Linked(text string) template.HTML {
	before, rest, found := strings.Cut(text, site)
	if !found {
		return template.HTML(template.HTMLEscapeString(text))
	}
	page, after := rest, ""
	if end := strings.IndexAny(rest, " \n"); end >= 0 {
		page, after = rest[:end], rest[end:]
	}
	shown := template.HTMLEscapeString(page)
	return template.HTML(fmt.Sprintf(`%s<a href="%s%s">%s</a>%s`, template.HTMLEscapeString(before), site, shown, shown,
		Linked(after)))
}
