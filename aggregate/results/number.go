package results

import (
	"fmt"
	"strings"

	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/lists"
)

// Marks of numbers in tables.
const (
	// Doubted: a check of the verdict touches the number.
	Doubted = "!"
	// OfFew: fewer than ten values lie beyond the percentile.
	OfFew = "*"
)

// Number returns a number of the stage by its name in results.json: "ttft_ms.p99", "request_throughput",
// "goodput.share". Nil: it is not known.
func (r *StageResult) Number(name string) *float64 {
	switch name {
	case "request_throughput":
		return r.RequestThroughput
	case "output_token_throughput":
		return r.OutputTokenThroughput
	case "text_throughput":
		return r.TextThroughput
	case "total_token_throughput":
		return r.TotalTokenThroughput
	case "goodput.share":
		if r.Goodput == nil {
			return nil
		}
		return r.Goodput.Share
	}
	return r.Latencies.Number(name)
}

// Number returns a statistic of a main latency by its name in results.json: "ttft_ms.p99". Nil: it is not known.
func (l *Latencies) Number(name string) *float64 {
	metric, statistic, _ := strings.Cut(name, ".")
	return l.Latency(metric).At(statistic)
}

// Latency returns a main latency by its name in results.json, or nil.
func (l *Latencies) Latency(name string) *histogram.Summary {
	return map[string]*histogram.Summary{"ttft_ms": l.TTFT, "tpot_ms": l.TPOT, "itl_ms": l.ITL, "e2e_ms": l.E2E}[name]
}

// Mark returns the mark of a number, by its name in results.json: "ttft_ms.p99", "request_throughput". "": it has none.
func (r *StageResult) Mark(number string) string { return r.MarkIn(&r.Latencies, number) }

// MarkIn is Mark for a number of a part of the stage, whose latencies are given: what doubts a number of the stage
// doubts that of its parts.
func (r *StageResult) MarkIn(part *Latencies, number string) string {
	if number == "text_throughput" {
		number = "request_throughput" // whose texts they are
	}
	metric, statistic, _ := strings.Cut(number, ".")
	switch {
	case r.Trust.Doubts(number):
		return Doubted
	case part.Latency(metric).FewAt(statistic) != nil:
		return OfFew
	}
	return ""
}

// FewWords says of how many values a percentile of some latencies is, and their 95 % confidence intervals, if one of
// them is of few values: "p99 of 10 requests: E2E from 320.10, TTFT 4.40 to 9.12 ms". "": none is.
func (r *StageResult) FewWords(percentile string) string {
	var list []string
	count := uint64(0)
	for _, l := range []struct {
		name string
		s    *histogram.Summary
	}{{"E2E", r.E2E}, {"TTFT", r.TTFT}, {"TPOT", r.TPOT}} {
		f := l.s.FewAt(percentile)
		if f == nil {
			continue
		}
		count = max(count, l.s.Count)
		list = append(list, l.name+" "+f.Words())
	}
	if list == nil {
		return ""
	}
	return fmt.Sprintf("%s of %d requests, 95 %% confidence: %s ms", percentile, count, strings.Join(list, ", "))
}

// Words returns the condition, with what it is for in brackets.
func (t *Threshold) Words() string {
	names := lists.Known([]*string{t.Target, t.Workload, t.Load}, func(name *string) *string { return name })
	if t.Part != nil {
		names = append(names, "part "+*t.Part)
	}
	if names == nil {
		return t.That
	}
	return t.That + " (" + strings.Join(names, ", ") + ")"
}
