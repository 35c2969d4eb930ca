package report

import (
	"io"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/report/page"
)

// writePage writes report.html.
func writePage(w io.Writer, r *results.Result, plan []byte) error {
	in := page.Input{Result: r, Plan: plan, Judged: verdicts(r.Stages), Remedies: remedies(r.Stages)}
	if k := r.Run.TimeCompression; k != nil {
		in.Simulation = compressed(*k)
	}
	for _, g := range gridsOf(r) {
		group := page.Group{Title: g.title(), LoadHeader: g.loadHeader(), OpenLoop: g.openLoop,
			Conclusions: g.conclusions()}
		notes := &once{}
		for _, s := range g.stages {
			group.Rows = append(group.Rows, pageRow(s, notes))
		}
		in.Groups = append(in.Groups, group)
	}
	return page.Write(w, in)
}

// pageRow returns a stage as a row of the page. It does not repeat what the notes of other rows have said.
func pageRow(s results.StageResult, notes *once) page.Row {
	row := page.Row{Stage: s, Load: strings.TrimSuffix(loadCell(s), " !"), Value: loadValue(s.Load)}
	if note := noteOf(s, notes); note != "" {
		row.Note = s.Load.String() + ": " + note
	}
	return row
}
