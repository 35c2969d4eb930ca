package report

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
)

func TestRatesAndReasoningAreToldWhereThereAreSome(t *testing.T) {
	var b strings.Builder
	plain := results.StageResult{Load: results.Load{Concurrency: ptr(uint32(8))},
		Arrivals: &results.ArrivalTime{Rate: 3}}
	ratesSection([]results.StageResult{plain}).Markdown(&b)
	reasoningSection([]results.StageResult{plain}).Markdown(&b)
	if b.Len() > 0 {
		t.Errorf("nothing is to be told:\n%s", b.String())
	}
	open := results.StageResult{
		Target: "t", Workload: "w", Load: results.Load{Rate: ptr(8.0), Words: "8 req/s poisson"}, OutputTokens: new(uint64(400)),
		Arrivals: &results.ArrivalTime{DurationS: 25, Rate: 8, RequestThroughput: 7.9,
			OutputTokenThroughput: new(158.0)},
		RequestThroughput: ptr(7.1), DurationS: ptr(28.2),
		Reasoning: &results.Reasoning{Tokens: 100, Hidden: 10},
		Latencies: results.Latencies{TTFT: distribution(20, 19, 30), TTFTAnswer: distribution(220, 219, 230),
			ReasoningTime: distribution(200, 199, 210)},
	}
	ratesSection([]results.StageResult{open}).Markdown(&b)
	reasoningSection([]results.StageResult{open}).Markdown(&b)
	for _, row := range []string{
		"| 1: t, w, 8 req/s poisson | 8.00 | 8.00 | 7.90 | 158.00 | 25.00 | 7.10 | 28.20 |",
		"| 1: t, w, 8 req/s poisson | 20.00 / 30.00 | n/a | 220.00 / 230.00 (1) | 200.00 / 210.00 | 100 | 25.00 | 10 |",
	} {
		if !strings.Contains(b.String(), row) {
			t.Errorf("no %s in\n%s", row, b.String())
		}
	}
}
