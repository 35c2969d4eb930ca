package report

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spate-load/spate/aggregate"
)

// writeServers writes what servers told of themselves, if they were asked.
func writeServers(b *strings.Builder, stages []aggregate.StageResult) {
	var rows [][]string
	var trouble []string
	for _, s := range stages {
		for _, server := range s.Servers {
			for _, m := range server.Metrics {
				rows = append(rows, append([]string{stageName(s), server.URL, m.Name, m.Labels}, serverCells(m)...))
			}
			if words := serverTrouble(server); words != "" {
				trouble = append(trouble, stageName(s)+": "+words)
			}
		}
	}
	if len(rows)+len(trouble) == 0 {
		return
	}
	b.WriteString("\n## Servers: what they told of themselves\n\nOnce a second, from the first measured start to the last measured end.\n\n")
	if len(rows) > 0 {
		writeRows(b, []string{"Stage", "Asked at", "Metric", "Labels", "Mean", "Min", "Max", "Increase", "Per second"}, rows)
	}
	for _, words := range trouble {
		fmt.Fprintf(b, "\n! %s\n", cell(words))
	}
}

// serverCells are a metric's numbers. They have no unit of ours, so that none of their digits is known to be of no use.
func serverCells(m aggregate.ServerMetric) (cells []string) {
	for _, v := range []*float64{m.Mean, m.Min, m.Max, m.Increase, m.PerSecond} {
		if v == nil {
			cells = append(cells, unknown)
			continue
		}
		cells = append(cells, strconv.FormatFloat(*v, 'g', 6, 64))
	}
	return cells
}

// serverTrouble says what is missing of a server's metrics, "" if nothing is.
func serverTrouble(s aggregate.ServerResult) string {
	switch {
	case s.Asked == 0:
		return s.URL + " was not asked: no agent read it, or it was lost; the run's notes say more"
	case s.Failed > 0:
		return fmt.Sprintf("%s did not answer %d of %d times", s.URL, s.Failed, s.Asked)
	case s.ValuesLeftOut > 0:
		return fmt.Sprintf("%s has more series than are taken: %d values were left out; name fewer in server_metrics.names", s.URL, s.ValuesLeftOut)
	case len(s.Metrics) == 0:
		return s.URL + " has none of the metrics that were asked for: name others in server_metrics.names"
	}
	return ""
}
