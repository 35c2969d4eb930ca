package tables

import (
	"slices"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
)

// Parts returns a table with a row for each part of the mixture of each stage, and its main numbers. The table has no
// rows if the run has no mixtures.
func Parts(r *results.Result) *Table {
	columns := append(stageColumns("Load", "Target"), []Column{
		{Key: "part", Header: "Part", Label: true, Words: true}, {Key: "weight", Digits: 4},
		{Key: "share", Header: "Requests (%)", Digits: 2},
		{Key: "requests_completed", Header: "Completed"}, {Key: "requests_failed", Header: "Failed"},
		{Key: "requests_cancelled"},
		{Key: "request_throughput", Header: "Requests/s", Digits: 2},
		{Key: "output_token_throughput", Header: "Output tok/s", Digits: 2},
		{Key: "good_percent", Header: "Good (%)", Digits: 2},
	}...)
	t := &Table{Columns: append(columns, latencyColumns()...)}
	for i, c := range t.Columns {
		// People get what fits into a terminal.
		if strings.HasPrefix(c.Key, "median_") || strings.HasSuffix(c.Key, "_itl_ms") {
			t.Columns[i].Header = ""
		}
	}
	for _, s := range slices.Concat(sameLoads(r)...) {
		for j := range s.Parts {
			p := &s.Parts[j]
			var good *float64
			if p.Goodput != nil {
				good = p.Goodput.Share
			}
			cells := []Cell{word(p.Name), number(&p.Weight), number(percent(p.Share)), count(p.Requests.Completed),
				count(p.Requests.Failed), count(p.Requests.Cancelled), number(p.RequestThroughput),
				number(p.OutputTokenThroughput), number(percent(good))}
			t.Rows = append(t.Rows, newRow(s, s.Workload, append(cells, latencyCells(&p.Latencies)...)...))
		}
	}
	return t
}

// percent returns a share in percent. Nil: it is not known.
func percent(share *float64) *float64 {
	if share == nil {
		return nil
	}
	return new(100 * *share)
}
