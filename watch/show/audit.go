package show

import (
	"cmp"
	"strings"
	"time"

	"github.com/spate-load/spate/internal/table"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Audit returns a table of who changed what, with times of a zone.
func Audit(entries []*spatev1.AuditEntry, zone *time.Location) *table.Table {
	t := table.New(table.Words("time", "action", "by", "proof", "address", "run or agents"))
	for _, e := range entries {
		what := append([]string{}, e.GetAgents()...)
		if e.GetRun() != "" {
			what = append(what, e.GetRun())
		}
		action := e.GetAction()
		if e.GetImmediately() {
			action += " at once"
		}
		row := []string{e.GetTime().AsTime().In(zone).Format("2006-01-02 15:04:05"), action, e.GetBy(), e.GetProof(),
			e.GetAddress(), strings.Join(what, ", ")}
		for i, cell := range row {
			row[i] = Clean(cmp.Or(cell, Unknown))
		}
		t.Add(row...)
	}
	return t
}
