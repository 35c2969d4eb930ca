package page

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"slices"
	"unicode"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/internal/table"
)

// Input is what a page shows.
type Input struct {
	// Result is the result of the run.
	Result *results.Result
	// Thresholds and Details are the sections of report.md other than its tables of numbers. A reader wants the
	// thresholds first.
	Thresholds table.Section
	Details    []table.Section
	// Plan is the plan as submitted, in YAML.
	Plan []byte
	// Simulation says that the run was a simulation. Empty: it was not.
	Simulation string
	// Recordings are those of the stages, in the order in which they ran. Events are what else happened.
	Recordings []*Recording
	Events     []Event
	// Overview has the numbers behind the answer.
	Overview *table.Table
	// Changes are the other targets against the baseline. Nil: there is one target, or nothing could be compared.
	Changes *compare.Comparison
	// Groups are the tables of results, each of one target and workload.
	Groups []Group
}

// Group is the table of one target and workload.
type Group struct {
	// Title names both.
	Title string
	// LoadHeader is the header of the column of loads.
	LoadHeader string
	// OpenLoop reports whether the loads are rates.
	OpenLoop bool
	// Rows are the stages, in the order of the table.
	Rows []Row
	// Conclusions are what the searches and frontiers of the group found, in words.
	Conclusions []string
	// Series are what searches, frontiers and sweeps of the group found.
	Series []results.SeriesResult
}

// Goodput reports whether the plan has an SLO, so that the table has a column for it.
func (g Group) Goodput() bool { return g.Rows[0].Stage.Goodput != nil }

// Streams reports whether answers of any stage were requested as streams, so that the table has columns for TTFT and
// TPOT.
func (g Group) Streams() bool {
	return slices.ContainsFunc(g.Rows, func(r Row) bool { return r.Stage.Stream })
}

// Tokens reports whether the table has a column for output tokens: answers are streams, or tokens of a stage are known.
func (g Group) Tokens() bool {
	return g.Streams() || slices.ContainsFunc(g.Rows, func(r Row) bool { return r.Stage.OutputTokenThroughput != nil })
}

// Texts reports whether the table has a column for texts per second.
func (g Group) Texts() bool {
	return slices.ContainsFunc(g.Rows, func(r Row) bool { return r.Stage.TextThroughput != nil })
}

// Row is a stage in its table.
type Row struct {
	// Stage is the stage's result.
	Stage results.StageResult
	// Load is its load in the table. Value is the load as a number, or 0 if it has none.
	Load  string
	Value float64
	// Recording is the stage's recording. Nil: there is none.
	Recording *Recording
	// Note is what a reader must know about the row. Empty: nothing.
	Note string

	Slow *slow // why requests are slow; nil: it is not known, or the page has no room
}

// The parts of the page.
var (
	//go:embed page.html.tmpl
	pageText string
	//go:embed style.css
	style string
	//go:embed script.js
	script string

	pageTemplate = template.Must(template.New("page").Funcs(functions).Parse(table.HTML + pageText))
)

// Write writes the page.
func Write(w io.Writer, in Input) error { return Execute(w, pageTemplate, viewOf(in)) }

// Execute writes what a template makes of data, Printable. It writes nothing if the template fails.
func Execute(w io.Writer, of *template.Template, data any) error {
	var b bytes.Buffer
	if err := of.Execute(&b, data); err != nil {
		return err
	}
	_, err := w.Write(Printable(b.Bytes()))
	return err
}

// printable drops control characters, and those that change the direction of text, which could make a text look like
// another one.
func printable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
		return -1
	}
	return r
}

// hash returns the source expression with which a Content-Security-Policy permits an inline text.
func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Sheet is the style sheet of the page, for other pages that are to look like it.
func Sheet() template.CSS { return template.CSS(style) } //nolint:gosec // it is ours

// SheetPolicy is the Content-Security-Policy of a page that has Sheet, no script, and no network.
func SheetPolicy() string {
	return "default-src 'none'; style-src " + hash(style) + "; base-uri 'none'; form-action 'none'"
}

// Printable drops from text what could make it look like another text: control characters, and characters that change
// its direction.
func Printable(text []byte) []byte { return bytes.Map(printable, text) }
