package tables

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/naming"
)

// Targets returns a table of the targets side by side: for each workload and load a row for each target, with ratios to
// the baseline target. baseline is the baseline's name; empty: the one that the plan marks, or the first. The error
// names a baseline that the run does not have.
//
// Repeats are one row. If their targets ran in turns and clearly drifted, a ratio is without the drift, and a note says
// so. A ratio is known if both stages are complete, their verdicts are not INVALID and neither number is 0.
func Targets(r *results.Result, baseline string) (*table.Table, error) {
	name, err := baselineOf(r, baseline)
	if err != nil {
		return nil, err
	}
	t := &table.Table{Columns: targetColumns(r), Notes: targetNotes(r, name, " under the same load")}
	for _, group := range sameLoads(r) {
		rows := together(r, group)
		var base *targetRow // nil: there is none, or it is not believable
		for i := range rows {
			if rows[i].Target == name && rows[i].Believable() {
				base = &rows[i]
			}
		}
		for s := range lists.Refs(rows) {
			turns := s.turns(base)
			drift := s.drift(base, turns)
			if drift == "" {
				turns = nil // a ratio is that of the numbers in the table, unless a note says otherwise
			}
			var cells []table.Cell
			for at, v := range targetNumbers(r, s.StageResult) {
				c := number(v)
				if base != nil && s.Target != base.Target && s.Believable() {
					c.Ratio = s.ratio(r, base, turns, at)
				}
				cells = append(cells, c)
			}
			row := newRow(s.StageResult, s.Workload, cells...)
			if len(s.of) > 1 {
				row.Cells[0] = table.Cell{} // repeats are several stages
			}
			t.Rows = append(t.Rows, marked(t.Columns, s.StageResult, row, ""))
			if drift != "" {
				t.Notes = append(t.Notes, words.Printable(drift))
			}
		}
	}
	if oneAfterTheOther(r) {
		t.Notes = append(t.Notes, "The targets ran one after the other: what changed over time cannot be told apart from a "+
			"difference between them")
	}
	return explained(t), nil
}

// numberOf returns the name in results.json of the number in a column: "ttft_ms.p99" of "p99_ttft_ms".
func numberOf(key string) string {
	statistic, metric, _ := strings.Cut(key, "_")
	switch statistic {
	case "median":
		return metric + ".p50"
	case "mean", "p90", "p95", "p99":
		return metric + "." + statistic
	}
	return key
}

// TargetNames returns the names of the targets of a run's stages, the baseline first.
func TargetNames(r *results.Result) (names []string) {
	for _, t := range r.Run.Targets {
		if t.Baseline && slices.ContainsFunc(r.Stages, func(s results.StageResult) bool { return s.Target == t.Name }) {
			names = append(names, t.Name)
		}
	}
	for i := range r.Stages {
		names = words.AppendOnce(names, r.Stages[i].Target)
	}
	return names
}

// baselineOf returns the name of the baseline target.
func baselineOf(r *results.Result, asked string) (string, error) {
	var names []string
	marked := ""
	for _, t := range r.Run.Targets {
		names = words.AppendOnce(names, t.Name)
		if t.Baseline {
			marked = t.Name
		}
	}
	for _, s := range r.Stages {
		names = words.AppendOnce(names, s.Target)
	}
	switch {
	case asked != "" && !slices.Contains(names, asked):
		return "", fmt.Errorf("there is no target %q; the run has %s", asked, strings.Join(names, ", "))
	case len(names) == 0:
		return "", nil
	}
	return cmp.Or(asked, marked, names[0]), nil
}

// Economy returns what a stage's output tokens cost on its target, by the keys of columns: per second for each GPU, and
// for a dollar. What is not known is not there. An hour of a simulation that compresses time is an hour of the plan's
// time.
func Economy(r *results.Result, s *results.StageResult) map[string]*float64 {
	e := map[string]*float64{}
	rate := s.OutputTokenThroughput
	t := r.Run.Target(s.Target)
	if rate == nil || *rate <= 0 || t == nil {
		return e
	}
	if t.GPUs != nil {
		e["output_tokens_per_gpu"] = new(*rate / float64(*t.GPUs))
	}
	if t.CostPerHour != nil {
		const secondsPerHour = 3600
		perDollar := *rate / *cmp.Or(r.Run.TimeCompression, new(1.0)) * secondsPerHour / *t.CostPerHour
		e["output_tokens_per_dollar"], e["dollars_per_million_output_tokens"] = &perDollar, new(1e6/perDollar)
	}
	return e
}

// targetValues are the columns of the table's numbers, found by results.StageResult.Number: rows of repeats have what
// results.Repeats.Stage sets.
var targetValues = ColumnsOf("targets")

// targetColumns returns the columns of the table. Those of GPUs and costs are for people only if a target has them.
func targetColumns(r *results.Result) []table.Column {
	hasGPUs := slices.ContainsFunc(r.Run.Targets, func(t results.RunTarget) bool { return t.GPUs != nil })
	hasCosts := slices.ContainsFunc(r.Run.Targets, func(t results.RunTarget) bool { return t.CostPerHour != nil })
	columns := stageColumns("Load", "Target")
	for _, c := range targetValues {
		if c.Key == "output_tokens_per_gpu" && !hasGPUs || strings.Contains(c.Key, "dollar") && !hasCosts {
			c.Header = ""
		}
		columns = append(columns, c)
	}
	return columns
}

// targetNumbers returns a stage's numbers, in the order of targetValues.
func targetNumbers(r *results.Result, s *results.StageResult) (values []*float64) {
	economy := Economy(r, s)
	for _, c := range targetValues {
		values = append(values, cmp.Or(economy[c.Key], s.Number(c.Field)))
	}
	return values
}

// ratio returns a / b, or nil if it is not known.
func ratio(a, b *float64) *float64 {
	if a == nil || b == nil || *a == 0 || *b == 0 {
		return nil
	}
	return new(*a / *b)
}

// sameLoads returns the stages in groups that had the same workload and load: in the order of their first stages, the
// probes of searches and sweeps last, by their load. Within a group, targets are in the plan's order.
func sameLoads(r *results.Result) [][]*results.StageResult {
	type key struct{ workload, load string }
	groups := make(map[key][]*results.StageResult)
	var keys []key
	for s := range lists.Refs(r.Stages) {
		k := key{s.Workload, s.Load.Shared()}
		if groups[k] == nil {
			keys = append(keys, k)
		}
		groups[k] = append(groups[k], s)
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		return cmp.Compare(groups[a][0].ProbedLoad(), groups[b][0].ProbedLoad())
	})
	return lists.Each(keys, func(k key) []*results.StageResult { return groups[k] })
}

// targetNotes describes the targets, and says what the ratios mean. same says what is the same in both.
func targetNotes(r *results.Result, baseline, same string) []string {
	var notes []string
	for _, t := range r.Run.Targets {
		var facts []string
		if t.Hardware != nil {
			facts = append(facts, *t.Hardware)
		}
		if t.GPUs != nil {
			facts = append(facts, map[bool]string{true: "1 GPU", false: fmt.Sprintf("%d GPUs", *t.GPUs)}[*t.GPUs == 1])
		}
		if t.CostPerHour != nil {
			facts = append(facts, fmt.Sprintf("%g $/h", *t.CostPerHour))
		}
		facts = append(facts, naming.LabelTexts(t.Labels)...)
		if len(facts) > 0 {
			notes = append(notes, words.Printable(t.Name+": "+strings.Join(facts, ", ")))
		}
	}
	if len(r.Run.Targets) > 1 {
		notes = append(notes, "Percentages: the difference from "+words.Printable(baseline)+same)
	}
	return notes
}

// Statistics of a distribution; nil: there is none.
var mean, median, p95 = histogram.MeanOf, histogram.MedianOf, histogram.P95Of
