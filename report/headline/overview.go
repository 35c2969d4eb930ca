package headline

import (
	"fmt"
	"math"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/tables"
)

// measure is a number of an overview.
type measure struct {
	name string // UNIT is that of throughput, LIMIT what a load must be within
	at   func(*curve) *point
	of   func(*writer, *curve, *point) float64 // NaN: not known
}

var measures = []measure{
	{"UNIT within LIMIT", (*curve).kept, throughputAt},
	{"highest UNIT", (*curve).peak, throughputAt},
	{"highest UNIT per GPU", (*curve).peak, func(w *writer, c *curve, p *point) float64 {
		return c.throughput(p) / w.gpus(c.target)
	}},
	{"tok/s of a user", (*curve).felt, func(_ *writer, _ *curve, p *point) float64 {
		if p.TPOT == nil {
			return math.NaN()
		}
		return 1000 / p.TPOT.Mean
	}},
	{"first token, median ms", (*curve).felt, func(_ *writer, _ *curve, p *point) float64 {
		if p.TTFT == nil {
			return math.NaN()
		}
		return p.TTFT.P50
	}},
	{"answer, median ms", (*curve).felt, func(_ *writer, _ *curve, p *point) float64 {
		if p.TTFT != nil || p.E2E == nil {
			return math.NaN()
		}
		return p.E2E.P50
	}},
}

func throughputAt(_ *writer, c *curve, p *point) float64 { return c.throughput(p) }

// felt returns the point at which it is told what a user feels: the highest load within the limit, or without a limit
// the lowest with nearly the highest throughput. Nil: there is none.
func (c *curve) felt() *point {
	if kept, _, limited := c.within(); limited {
		return kept
	}
	return c.enough()
}

// value returns a measure of a curve and where it is. Nil: it is not known.
func (w *writer) value(c *curve, m measure) (p *point, value *float64) {
	if p = m.at(c); p == nil {
		return nil, nil
	}
	v := m.of(w, c, p)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return p, nil
	}
	return p, &v
}

// Overview returns the numbers behind the answer: for each workload what the targets carry and what a user feels there,
// with the differences from the baseline. r is in the plan's time.
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
			cells, baseline, known := []string{workload, ""}, (*float64)(nil), false
			for i, target := range names {
				text := table.Unknown
				if c := w.curve(target, workload); c != nil {
					at, v := w.value(c, m)
					if v != nil {
						text, known = cell(at, *v, baseline), true
						limit, _, _ := strings.Cut(at.limit, " (")
						cells[1] = strings.NewReplacer("UNIT", c.unit(), "LIMIT", limit).Replace(m.name)
					}
					if i == 0 {
						baseline = v
					}
				}
				cells = append(cells, text)
			}
			if known {
				t.Add(cells...)
			}
		}
	}
	return t
}

// cell returns a number with its load and its difference from the baseline's, which may be nil.
func cell(p *point, v float64, baseline *float64) string {
	text := fmt.Sprintf("%s at %s", number(v), p.load)
	if baseline != nil && *baseline > 0 {
		text += fmt.Sprintf(" (%s)", signed(v / *baseline - 1))
	}
	return words.Printable(text)
}
