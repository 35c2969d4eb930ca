package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/spate-load/spate/aggregate"
)

// vllmWidth is the width of vLLM's block.
const vllmWidth = 50

// writeVLLM writes a "Serving Benchmark Result" block for each stage, laid out and defined as in vLLM's benchmark_serving.py: its
// TTFT takes the first frame of any kind, and its TPOT and ITL count from there.
func writeVLLM(w io.Writer, r *aggregate.Result) error {
	var b strings.Builder
	for i, s := range r.Stages {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "Stage %d: %s, %s, %s%s\n", s.Index, s.Target, s.Workload, s.Load, partialMark(s.Complete))
		for _, reason := range s.Missing {
			fmt.Fprintf(&b, "Missing: %s\n", oneLine(reason))
		}
		writeVLLMBlock(&b, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// oneLine makes a text fit into one line.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// partialMark says loudly that something is missing.
func partialMark(complete bool) string {
	if complete {
		return ""
	}
	return " (PARTIAL)"
}

// writeVLLMBlock writes the block of one stage.
func writeVLLMBlock(b *strings.Builder, s aggregate.StageResult) {
	line := func(label, value string) { fmt.Fprintf(b, "%-40s %-10s\n", label, value) }
	section := func(title, fill string) { b.WriteString(centred(title, fill) + "\n") }
	section(" Serving Benchmark Result ", "=")
	line("Successful requests:", fmt.Sprint(s.Requests.Completed))
	line("Benchmark duration (s):", fixed(s.DurationS))
	line("Total input tokens:", whole(s.InputTokens))
	line("Total generated tokens:", fmt.Sprint(s.OutputTokens))
	line("Request throughput (req/s):", fixed(s.RequestThroughput))
	line("Output token throughput (tok/s):", fixed(s.OutputTokenThroughput))
	line("Total Token throughput (tok/s):", fixed(s.TotalTokenThroughput))
	for _, m := range []struct {
		title, name string
		values      *aggregate.Distribution
	}{
		{"Time to First Token", "TTFT", s.FirstFrame},
		{"Time per Output Token (excl. 1st token)", "TPOT", s.TPOTFirstFrame},
		{"Inter-token Latency", "ITL", s.ITLFirstFrame},
	} {
		section(m.title, "-")
		line("Mean "+m.name+" (ms):", fixed(mean(m.values)))
		line("Median "+m.name+" (ms):", fixed(median(m.values)))
		line("P99 "+m.name+" (ms):", fixed(p99(m.values)))
	}
	section("", "=")
}

// centred fills a title up to vLLM's width on both sides, the odd one right.
func centred(title, fill string) string {
	free := vllmWidth - len(title)
	return strings.Repeat(fill, free/2) + title + strings.Repeat(fill, free-free/2)
}
