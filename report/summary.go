package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
)

// mostSummary is the size in bytes up to which a summary has the tables of numbers. GitHub takes 1 MiB for a step.
const mostSummary = 900 << 10

// Summary writes the run in short as Markdown, for the page of a CI job: what is missing, thresholds, verdicts and the
// tables of numbers. If the tables are too long for a page, they are left out, and the summary says so.
func Summary(w io.Writer, r *results.Result) error {
	var b, tables strings.Builder
	writeHead(&b, r.Run)
	thresholdsSection(r).Markdown(&b)
	trustSection(r.Stages).Markdown(&b)
	for _, s := range gridSections(r) {
		s.Markdown(&tables)
	}
	if b.Len()+tables.Len() > mostSummary {
		tables.Reset()
		fmt.Fprintf(&tables, "\nThe tables of %s are too long for this page: see report.html.\n",
			stages(uint64(len(r.Stages))))
	}
	_, err := io.WriteString(w, printable(b.String()+tables.String()+"\n"))
	return err
}
