package main

import (
	"strings"
	"testing"
	"time"
)

func TestMarkdown(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	l := Load{Shape: Ticks, Streams: 10, Requests: 10, ISL: 10, OSL: 100, TTFT: 50 * time.Millisecond,
		ITL: 20 * time.Millisecond}
	truth := Truth{TTFT: Summary{n(50), n(50), n(51)}, Arrival: Summary{n(51.5), n(51.5), n(52.5)},
		ITL: Summary{n(20), n(20), n(20)}, Tokens: 1000}
	run := func(tool string, ttft float64) Run {
		return Run{
			Tool: tool, Load: l, Truth: truth, Usage: Usage{Seconds: 3, CPUSeconds: 0.5, LoadCPUSeconds: n(0.02),
				PeakBytes: 10 << 20},
			Report: Report{TTFT: Summary{n(ttft), n(ttft), n(ttft)}, Connect: Summary{Mean: n(0.25)}},
		}
	}
	vllm := Run{Tool: "vllm", Load: l, Failure: "no result | within 1m"}
	r := &Results{Versions: map[string]string{"spate": "v1"}, Rounds: 2, Runs: []Run{run("spate", 51), run("spate", 53),
		vllm, run("locust", 51), {Tool: "locust", Load: l, Failure: "x"}}}
	table := r.Markdown()
	for _, want := range []string{
		"| spate | 2.00, 2.00, 1.00 | 0.500, 0.500, -0.500 | n/a, n/a, n/a | n/a, n/a, n/a | 20.0, 500 | 10.0 | 3.00 |",
		"| spate, connection apart | mean 1.75 beyond 0.250 | mean 0.250 beyond 0.250 |",
		"| vllm | no result / within 1m |",
		"| locust (1 of 2 runs) | 1.00, 1.00, 0.000 | -0.500, -0.500, -1.50 |",
		"TTFT mean 50.0 to 50.0 ms, p99 51.0 to 51.0 ms; TTFT since arrival mean 51.5 to 51.5 ms, p99 52.5 to 52.5 ms",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("there is no %q in\n%s", want, table)
		}
	}
}
