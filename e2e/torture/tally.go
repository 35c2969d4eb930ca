package torture

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Tally sums up runs.
type Tally struct{ Lines []Line }

// row is one row of the table.
type row struct{ runs, promised, kept, complete, named, failed, lost, twice, wrong int }

func (r *row) add(l Line) {
	r.runs++
	if l.Promised {
		r.promised++
	}
	if l.Promised && l.Complete {
		r.kept++
	}
	if l.Complete {
		r.complete++
	}
	if l.Outcome == "failed" {
		r.failed++
	}
	r.named, r.lost, r.twice, r.wrong = r.named+l.Named, r.lost+l.Lost, r.twice+l.Twice, r.wrong+len(l.Wrong)
}

func (r row) cells(name string) string {
	return fmt.Sprintf("| %s | %d | %d of %d | %d | %d | %d | %d | %d | %d |\n", name, r.runs, r.kept, r.promised,
		r.complete, r.failed, r.named, r.lost, r.twice, r.wrong)
}

// String returns the table of docs/reliability.md, and what was drawn.
func (t Tally) String() string {
	var b strings.Builder
	var all row
	rows, faults := map[string]*row{}, map[string]int{}
	var sent, kept int
	var seconds float64
	for _, l := range t.Lines {
		name := l.Policy
		if l.Messages {
			name += ", messages"
		}
		if rows[name] == nil {
			rows[name] = &row{}
		}
		rows[name].add(l)
		all.add(l)
		for kind, n := range l.Faults {
			faults[kind] += n
		}
		sent, kept, seconds = sent+l.Sent, kept+l.Kept, seconds+l.Seconds
	}
	b.WriteString("| policy | runs | complete as promised | complete | failed | requests missing and named | lost | twice | wrong |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		b.WriteString(rows[name].cells(name))
	}
	b.WriteString(all.cells("all"))
	fmt.Fprintf(&b, "\n%d requests were sent, %d are in results, in %.0f s of runs. Faults that struck:", sent,
		kept, seconds)
	for _, kind := range slices.Sorted(maps.Keys(faults)) {
		fmt.Fprintf(&b, " %d %s,", faults[kind], kind)
	}
	return strings.TrimSuffix(b.String(), ",") + ".\n"
}
