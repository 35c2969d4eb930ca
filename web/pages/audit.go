package pages

import (
	"cmp"
	"io"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch/show"
)

// Audit writes the page of the audit log.
func Audit(w io.Writer, entries []*spatev1.AuditEntry) error {
	t := show.Table{
		Head:  []string{"time", "action", "by", "proof", "address", "run or agents"},
		Right: make([]bool, 6),
	}
	for _, e := range entries {
		what := append([]string{}, e.GetAgents()...)
		if e.GetRun() != "" {
			what = append(what, e.GetRun())
		}
		action := e.GetAction()
		if e.GetImmediately() {
			action += " at once"
		}
		row := []string{e.GetTime().AsTime().UTC().Format("2006-01-02 15:04:05"), action, e.GetBy(), e.GetProof(),
			e.GetAddress(), strings.Join(what, ", ")}
		for i, cell := range row {
			row[i] = show.Clean(cmp.Or(cell, show.Unknown))
		}
		t.Rows = append(t.Rows, show.Row{Cells: row})
	}
	return write(w, "audit.html.tmpl", map[string]any{
		"Title": "Spate: who did what", "Events": "", "Table": t, "Frame": Frame{MayOperate: true},
	})
}
