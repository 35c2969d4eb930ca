package web

import (
	"bytes"
	"embed"
	"html/template"
	"io"
	"net/url"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/page"
	"github.com/spate-load/spate/watch"
)

// The parts of all pages.
var (
	//go:embed style.css
	style []byte // what pages need beyond the style sheet of reports
	//go:embed script.js
	script []byte // replaces the parts that change
	//go:embed *.tmpl
	files     embed.FS
	templates = template.Must(template.New("").Funcs(template.FuncMap{
		"when": when, "bytes": words.Bytes[int64], "clean": watch.Clean, "dict": dict, "class": class, "link": link,
		"docs": words.DocURL,
	}).ParseFS(files, "*.tmpl"))
)

// Part is a piece of a page that changes: the contents of the element with its ID.
type Part struct {
	ID   string
	HTML []byte
}

// Frame is what surrounds a page's parts and does not change.
type Frame struct {
	// Events is the path at which a viewer's browser receives the parts that change. Empty: none does.
	Events string
	// MayWrite reports whether the viewer may change something, or will be asked for a token.
	MayWrite bool
	// History reports whether there is a page of numbers over runs.
	History bool
	// Parts are the page's parts as they are now.
	Parts []Part
}

// Part returns the contents of a part, for templates.
func (f Frame) Part(id string) template.HTML {
	of := lists.Find(f.Parts, func(p Part) bool { return p.ID == id })
	return template.HTML(of.HTML) //nolint:gosec // templates of this package wrote it
}

// parts executes the templates of parts, in the order in which they are on the page.
func parts(data any, ids ...string) ([]Part, error) {
	var list []Part
	for _, id := range ids {
		var b bytes.Buffer
		if err := templates.ExecuteTemplate(&b, id, data); err != nil {
			return nil, err
		}
		list = append(list, Part{id, page.Printable(b.Bytes())})
	}
	return list, nil
}

// Failure writes a page that says why there is no other.
func Failure(w io.Writer, title, detail string) error {
	return writePage(w, "failure.html.tmpl", map[string]any{"Title": title, "Detail": detail, "Events": ""})
}

// writePage writes a page, without characters that could make a text look like another one.
func writePage(w io.Writer, name string, data any) error {
	return page.Execute(w, templates.Lookup(name), data)
}

// when formats a time, n/a if it is not known.
func when(t *timestamppb.Timestamp) template.HTML {
	if !t.IsValid() || t.AsTime().IsZero() {
		return watch.Unknown
	}
	at := t.AsTime().UTC()
	text := `<time datetime="` + at.Format(time.RFC3339) + `">` + at.Format("2006-01-02 15:04:05 UTC") + "</time>"
	return template.HTML(text) //nolint:gosec // only figures
}

// class returns the class of a row with a colour.
func class(c table.Colour) string {
	return [...]string{table.Plain: "", table.Suspect: "suspect", table.Bad: "bad"}[c]
}

// link returns where the first cell of a row leads. Empty: nowhere.
func link(to, cell string) string {
	if to == "" {
		return ""
	}
	return to + url.QueryEscape(cell)
}

// dict passes several values to a template.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1] //nolint:forcetypeassert // names in templates of this package
	}
	return m
}
