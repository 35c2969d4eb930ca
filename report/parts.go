package report

import (
	"fmt"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/report/section"
)

// partsSection returns each stage by part of its mixture, if it has one.
func partsSection(stages []results.StageResult) section.Section {
	var rows [][]string
	for _, s := range stages {
		for _, p := range s.Parts {
			row := []string{stageName(s), p.Name, fmt.Sprint(p.Weight), fixedPercent(p.Share),
				fmt.Sprint(p.Requests.Completed), fmt.Sprint(p.Requests.Failed)}
			for _, v := range []*float64{
				p.RequestThroughput, p.OutputTokenThroughput, mean(p.E2E), p99(p.E2E), mean(p.TTFT), p99(p.TTFT),
				mean(p.TPOT), p99(p.TPOT), percent(p.Goodput),
			} {
				row = append(row, fixed(v))
			}
			rows = append(rows, row)
		}
	}
	if rows == nil {
		return section.Section{}
	}
	return section.New("Parts of mixtures", section.Table([]string{
		"Stage", "Part", "Weight", "Requests (%)", "Completed", "Failed", "req/s", "tok/s", "Mean E2E (ms)",
		"P99 E2E (ms)", "Mean TTFT (ms)", "P99 TTFT (ms)", "Mean TPOT (ms)", "P99 TPOT (ms)", "Good (%)",
	}, rows))
}
