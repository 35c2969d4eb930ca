package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/spate-load/spate/aggregate/results"
)

// vllmWidth is the width of vLLM's block.
const vllmWidth = 50

// VLLMLayout is a layout of vllm.txt.
type VLLMLayout string

// Layouts, by version of vLLM. The definitions are the same in both.
const (
	// VLLM026 is the layout of `vllm bench serve` as of vLLM 0.26.
	VLLM026 VLLMLayout = "0.26"
	// VLLM08 is the layout of benchmark_serving.py up to vLLM 0.8, which many published reports have.
	VLLM08 VLLMLayout = "0.8"
)

// VLLMLayouts are all layouts, the default first.
var VLLMLayouts = []VLLMLayout{VLLM026, VLLM08}

// writeVLLM writes a "Serving Benchmark Result" block for each stage, laid out and defined as in vLLM's benchmark.
func writeVLLM(w io.Writer, r *results.Result, layout VLLMLayout) error {
	var b strings.Builder
	for i, s := range results.InPlanTime(r).Stages {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "Stage %d: %s, %s, %s%s\n", s.Index+1, s.Target, s.Workload, s.Load, partialMark(s.Complete))
		for _, check := range s.Trust.Failed() {
			fmt.Fprintf(&b, "%s: %s\n", check.Verdict, oneLine(check.Words))
		}
		if few := s.FewWords("p99"); few != "" {
			fmt.Fprintf(&b, "Few values: %s\n", few)
		}
		writeVLLMBlock(&b, s, layout)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine joins a text into one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// partialMark returns a mark for stages that lack something.
func partialMark(complete bool) string {
	if complete {
		return ""
	}
	return " (PARTIAL)"
}

// vllmLine is a line of the block. Lines with an empty value are not written.
type vllmLine struct{ label, value string }

// writeVLLMBlock writes the block of one stage.
func writeVLLMBlock(b *strings.Builder, s results.StageResult, layout VLLMLayout) {
	lines := func(lines []vllmLine) {
		for _, l := range lines {
			if l.value != "" {
				fmt.Fprintf(b, "%-40s %-10s\n", l.label, l.value)
			}
		}
	}
	b.WriteString(centred(" Serving Benchmark Result ", "=") + "\n")
	metrics := vllmMetrics(&s.VLLM)
	if layout == VLLM08 {
		lines(head08(s))
		metrics = metrics[:3]
	} else {
		lines(head026(s))
	}
	for _, m := range metrics {
		b.WriteString(centred(m.title, "-") + "\n")
		v := m.values
		if v == nil {
			lines([]vllmLine{{"Mean " + m.name + " (ms):", unknown}, {"Median " + m.name + " (ms):", unknown},
				{"P99 " + m.name + " (ms):", unknown}})
			continue
		}
		lines([]vllmLine{
			{"Mean " + m.name + " (ms):", fixed(&v.Mean)}, {"Median " + m.name + " (ms):", fixed(&v.Median)},
			{"P99 " + m.name + " (ms):", fixed(&v.P99)},
		})
	}
	b.WriteString(centred("", "=") + "\n")
}

// namedMetric is one of the block's metrics.
type namedMetric struct {
	title, name string
	values      *results.VLLMMetric
}

func vllmMetrics(v *results.VLLM) []namedMetric {
	return []namedMetric{
		{"Time to First Token", "TTFT", v.TTFT},
		{"Time per Output Token (excl. 1st token)", "TPOT", v.TPOT},
		{"Inter-token Latency", "ITL", v.ITL},
		{"End-to-end Latency", "E2EL", v.E2EL},
	}
}

// head08 returns the block's first part as of vLLM 0.8.
func head08(s results.StageResult) []vllmLine {
	return []vllmLine{
		{"Successful requests:", fmt.Sprint(s.Requests.Completed)},
		{"Benchmark duration (s):", fixed(s.DurationS)},
		{"Total input tokens:", whole(s.InputTokens)},
		{"Total generated tokens:", whole(s.OutputTokens)},
		{"Request throughput (req/s):", fixed(s.RequestThroughput)},
		{"Output token throughput (tok/s):", fixed(s.OutputTokenThroughput)},
		{"Total Token throughput (tok/s):", fixed(s.TotalTokenThroughput)},
	}
}

// head026 returns the block's first part as of vLLM 0.26.
func head026(s results.StageResult) []vllmLine {
	var concurrency, rate, goodput string
	if s.Load.Concurrency != nil {
		concurrency = fmt.Sprint(*s.Load.Concurrency)
	}
	if s.Load.MaxInFlight != nil {
		concurrency = fmt.Sprint(*s.Load.MaxInFlight)
	}
	if s.Load.Rate != nil {
		rate = fixed(s.Load.Rate)
	}
	if s.Goodput != nil {
		goodput = fixed(s.Goodput.RequestThroughput)
	}
	concurrent := unknown
	if n := s.VLLM.PeakConcurrentRequests; n != nil {
		concurrent = fmt.Sprintf("%d.00", *n)
	}
	return []vllmLine{
		{"Successful requests:", fmt.Sprint(s.Requests.Completed)},
		{"Failed requests:", fmt.Sprint(s.Requests.Failed)},
		{"Maximum request concurrency:", concurrency},
		{"Request rate configured (RPS):", rate},
		{"Benchmark duration (s):", fixed(s.DurationS)},
		{"Total input tokens:", whole(s.InputTokens)},
		{"Total generated tokens:", whole(s.OutputTokens)},
		{"Request throughput (req/s):", fixed(s.RequestThroughput)},
		{"Request goodput (req/s):", goodput},
		{"Output token throughput (tok/s):", fixed(s.OutputTokenThroughput)},
		{"Peak output token throughput (tok/s):", fixed(s.VLLM.PeakOutputTokenThroughput)},
		{"Peak concurrent requests:", concurrent},
		{"Total token throughput (tok/s):", fixed(s.TotalTokenThroughput)},
	}
}

// centred pads a title to vLLM's width on both sides. If one side is longer, it is the right one.
func centred(title, fill string) string {
	free := vllmWidth - len(title)
	return strings.Repeat(fill, free/2) + title + strings.Repeat(fill, free-free/2)
}
