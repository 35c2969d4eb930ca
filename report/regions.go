package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
)

// severalRegions reports whether a stage had agents in more than one region. If not, a table by region would only
// repeat everything.
func severalRegions(stages []results.StageResult) bool {
	return slices.ContainsFunc(stages, func(s results.StageResult) bool { return len(s.Regions) > 1 })
}

// Regions returns each stage by region. It has no rows if there are no several regions.
func Regions(r *results.Result) *table.Table {
	if !severalRegions(r.Stages) {
		return &table.Table{}
	}
	return table.Of([]string{
		"Stage", "Region", "Agents", "Completed", "Failed", "Cancelled", "req/s", "tok/s", "Mean E2E (ms)", "P99 E2E (ms)",
		"Mean TTFT (ms)", "P99 TTFT (ms)", "Mean TPOT (ms)", "P99 TPOT (ms)", "Median connect (ms)",
		"of it DNS / TCP / TLS (ms)", "Median RTT (ms)",
	}, rowsOf(r.Stages, func(s results.StageResult, add func(...any)) {
		for _, c := range s.Regions {
			cells := []any{stageName(s), cmp.Or(c.Name, unknown), c.Agents, c.Requests.Completed, c.Requests.Failed,
				c.Requests.Cancelled}
			numbers := partCells(&s, c.RequestThroughput, c.OutputTokenThroughput, &c.Latencies)
			add(slices.Concat(cells, numbers, []any{median(c.Connect),
				fixed(median(c.DNS)) + " / " + fixed(median(c.TCP)) + " / " + fixed(median(c.TLS)), median(c.RTT)})...)
		}
	}))
}

// pathColumns are the tables about the network path from a region to an endpoint.
var pathColumns = []struct {
	title string
	of    func(results.PathResult) *histogram.Summary
}{
	{"Connect time (DNS, TCP, TLS)", func(p results.PathResult) *histogram.Summary { return p.Connect }},
	{"Round trip", func(p results.PathResult) *histogram.Summary { return p.RTT }},
}

// pathsSection returns connect and round trip times by region and endpoint, in one table for each target and kind of
// time, if the target has several endpoints or its stages several regions.
func pathsSection(stages []results.StageResult) table.Section {
	var blocks []table.Block
	for _, target := range targetsOf(stages) {
		of := slices.DeleteFunc(slices.Clone(stages), func(s results.StageResult) bool { return s.Target != target })
		if len(of[0].Endpoints) < 2 && !severalRegions(of) {
			continue
		}
		for _, column := range pathColumns {
			rows := pathRows(of, column.of)
			if len(rows) == 0 {
				continue
			}
			headers := []string{"Stage", "From region"}
			for _, e := range of[0].Endpoints {
				headers = append(headers, e.URL)
			}
			blocks = append(blocks, table.Text("%s to %s:", column.title, target), table.Texts(headers, rows))
		}
	}
	if blocks == nil {
		return table.Section{}
	}
	return table.NewSection("Connections by region and endpoint",
		append([]table.Block{table.Text("Median and p99 in ms.")}, blocks...)...)
}

// targetsOf returns the targets of stages, in the order of their first stages.
func targetsOf(stages []results.StageResult) (targets []string) {
	for _, s := range stages {
		targets = words.AppendOnce(targets, s.Target)
	}
	return targets
}

// pathRows returns the rows of one of a target's tables: the regions with values.
func pathRows(stages []results.StageResult, of func(results.PathResult) *histogram.Summary) (rows [][]string) {
	for _, s := range stages {
		for _, r := range s.Regions {
			if !slices.ContainsFunc(r.Paths, func(p results.PathResult) bool { return of(p) != nil }) {
				continue
			}
			row := []string{stageName(s), cmp.Or(r.Name, unknown)}
			for _, p := range r.Paths {
				row = append(row, pathCell(of(p)))
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// pathCell formats the median and the 99th percentile, to the microsecond if they are below 1 ms.
func pathCell(d *histogram.Summary) string {
	if d == nil {
		return unknown
	}
	if d.P99 < 1 {
		return fmt.Sprintf("%.3f, %.3f%s", d.P50, d.P99, fewMark(d))
	}
	return fmt.Sprintf("%.2f, %.2f%s", d.P50, d.P99, fewMark(d))
}
