package headline

import (
	"fmt"
	"math"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// measures are the numbers of an overview.
var measures = []string{"%s within %s", "highest %s", "highest %s per GPU", "tok/s of a user", "first token, median ms",
	"answer, median ms"}

// point returns where a measure is: at the highest load within the limit, at the peak, or for what a user feels at the
// first, or without a limit at the lowest load with nearly the throughput of the second. Nil: there is none.
func (c *curve) point(number int) *point {
	kept, _, limited := c.within()
	switch {
	case number == 1 || number == 2:
		return c.peak()
	case number > 2 && !limited:
		return c.enough()
	}
	return kept
}

// measure returns a measure at its point. Nil: it is not known.
func (w *writer) measure(c *curve, p *point, number int) *float64 {
	v := math.NaN()
	switch {
	case p == nil:
	case number < 2:
		v = c.throughput(p)
	case number == 2:
		v = c.throughput(p) / w.gpus(c.target)
	case number == 3 && p.TPOT != nil:
		v = 1000 / p.TPOT.Mean
	case number == 4 && p.TTFT != nil:
		v = p.TTFT.P50
	case number == 5 && p.TTFT == nil && p.E2E != nil:
		v = p.E2E.P50
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// Overview returns the numbers behind the answer: for each workload what the targets carry and what a user feels there,
// with the differences from the baseline. r is in the plan's time.
func Overview(r *results.Result) *table.Table {
	w := &writer{Headline: &results.Headline{}, r: r}
	w.curves = w.curvesOf()
	names, workloads := targetsOf(r), []string{}
	t := table.New(table.Words("Workload", "Measure"), table.Numbers(names...))
	for _, c := range w.curves {
		workloads = words.AppendOnce(workloads, c.workload)
	}
	for _, workload := range workloads {
		for number, name := range measures {
			cells, baseline, known := []string{workload, ""}, (*float64)(nil), false
			for i, target := range names {
				text := table.Unknown
				if c := w.curve(target, workload); c != nil {
					at := c.point(number)
					v := w.measure(c, at, number)
					if v != nil {
						text, known = cell(at, *v, baseline), true
						limit, _, _ := strings.Cut(at.limit, " (")
						cells[1] = strings.NewReplacer("%s within %s", c.unit()+" within "+limit, "%s", c.unit()).Replace(name)
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
