package headline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/tables"
)

// measure is a number of an overview.
type measure struct {
	name  string // UNIT is that of throughput, LIMIT what a load must be within
	at    func(*curve) *point
	of    string // in results.json; empty: the throughput
	alone bool   // it is for runs with one target, whose overview has room
}

var measures = []measure{
	{"UNIT within LIMIT", (*curve).kept, "", false},
	{"highest UNIT", (*curve).peak, "", false},
	{perGPU, (*curve).peak, "", false},
	{perUser, (*curve).felt, "tpot_ms.mean", false},
	{"first token, median ms", (*curve).felt, "ttft_ms.p50", false},
	{"first token, p95 ms", (*curve).felt, "ttft_ms.p95", true},
	{wholeAnswer, (*curve).felt, "e2e_ms.p50", false},
	{"whole answer, p95 ms", (*curve).felt, "e2e_ms.p95", true},
	{"requests/s", (*curve).felt, "request_throughput", true},
}

// Measures that are more than a number of results.json.
const perGPU, perUser, wholeAnswer = "highest UNIT per GPU", "tok/s of a user", "whole answer, median ms"

// felt returns the point at which it is told what a user feels: the highest load within the limit, or without a limit
// the lowest with nearly the highest throughput. Nil: there is none.
func (c *curve) felt() *point {
	if kept, _, limited := c.within(); limited {
		return kept
	}
	return c.enough()
}

// value returns a measure of a curve and where it is. Nil: it is not known, the table says it elsewhere, or there is no
// room.
func (w *writer) value(c *curve, m measure, alone bool) (p *point, value *float64) {
	name := cmp.Or(m.of, c.metric())
	if p = m.at(c); p == nil || m.of == c.metric() || m.alone && !alone || p.Mark(name) == results.OfFew ||
		m.name == wholeAnswer && p.TTFT != nil && !alone {
		return nil, nil
	}
	v := *cmp.Or(p.Number(name), new(math.NaN()))
	switch m.name {
	case perGPU:
		v /= w.gpus(c.target)
	case perUser:
		v = 1000 / v
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil, nil
	}
	return p, &v
}

// Overview returns the numbers behind the answer: for each workload what the targets carry and what a user feels there,
// with the differences from the baseline. Of one target each measure is a column. r is in the plan's time.
func Overview(r *results.Result) *table.Table {
	w := &writer{Headline: &results.Headline{}, r: r}
	w.curves = w.curvesOf()
	names, workloads := tables.TargetNames(r), []string{}
	t := table.New(table.Words("Workload", "Measure"), table.Numbers(names...))
	for _, c := range w.curves {
		workloads = words.AppendOnce(workloads, c.workload)
	}
	for _, workload := range workloads {
		for _, m := range measures {
			cells, known := []string{workload, ""}, false
			var baseline *float64
			var first *point
			for i, target := range names {
				text := table.Unknown
				if c := w.curve(target, workload); c != nil {
					at, v := w.value(c, m, len(names) == 1)
					if v != nil {
						against := baseline
						if m.of != "" && first != nil && first.load != at.load {
							against = nil // the load may make the difference
						}
						text, known = cell(at, *v, against), true
						limit, _, _ := strings.Cut(at.limit, " (")
						cells[1] = strings.NewReplacer("UNIT", c.unit(), "LIMIT", limit).Replace(m.name)
					}
					if i == 0 {
						baseline, first = v, at
					}
				}
				cells = append(cells, text)
			}
			if known {
				t.Add(cells...)
			}
		}
	}
	if len(names) == 1 {
		return across(t)
	}
	return t
}

// across returns an overview of one target with a row for each workload. A load that stands left of it is not repeated.
func across(t *table.Table) *table.Table {
	var names []string
	for _, r := range t.Rows {
		names = words.AppendOnce(names, r.Cells[1].Text)
	}
	out, before := table.New(table.Words("Workload"), table.Numbers(names...)), ""
	for i, r := range t.Rows {
		if i == 0 || r.Cells[0].Text != t.Rows[i-1].Cells[0].Text {
			out.Add(append([]string{r.Cells[0].Text}, slices.Repeat([]string{table.Unknown}, len(names))...)...)
			before = ""
		}
		value, load, _ := strings.Cut(r.Cells[2].Text, " at ")
		if load != before {
			value, before = r.Cells[2].Text, load
		}
		out.Rows[len(out.Rows)-1].Cells[1+slices.Index(names, r.Cells[1].Text)].Text = value
	}
	return out
}

// cell returns a number with its load and its difference from the baseline's, which may be nil.
func cell(p *point, v float64, baseline *float64) string {
	text := fmt.Sprintf("%s at %s", number(v), p.load)
	if baseline != nil && *baseline > 0 {
		text += fmt.Sprintf(" (%s)", signed(v / *baseline - 1))
	}
	return words.Printable(text)
}
