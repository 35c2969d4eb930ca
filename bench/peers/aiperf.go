package main

import (
	"fmt"
	"path/filepath"
)

// startAIPerf runs `aiperf profile` with its own synthetic prompts. It reads a tokenizer from a folder only if it may
// go online, which it then has no reason to do.
func startAIPerf(j Job) (Command, error) {
	return Command{Args: []string{
		j.program("aiperf", "aiperf"), "profile", "--model", "m", "--url", j.URL, "--endpoint-type", "completions",
		"--streaming",
		"--tokenizer", j.tokenizer(), "--use-server-token-count",
		"--concurrency", fmt.Sprint(j.Streams), "--request-count", fmt.Sprint(j.Requests),
		"--isl", fmt.Sprint(j.ISL), "--isl-stddev", "0", "--osl", fmt.Sprint(j.OSL), "--osl-stddev", "0",
		"--extra-inputs", "ignore_eos:true",
		"--ui", "none", "--no-gpu-telemetry", "--no-server-metrics", "--export-level", "summary", "--artifact-dir",
		filepath.Join(j.Dir, "out"),
	}}, nil
}

// aiperfMetric is a metric of AIPerf's summary.
type aiperfMetric struct {
	Avg, P50, P99 *float64
}

func (m aiperfMetric) summary() Summary { return Summary{Mean: m.Avg, P50: m.P50, P99: m.P99} }

// readAIPerf reads AIPerf's summary. Its inter-token latency is a mean per request, which is our TPOT. Its inter-chunk
// latency is our ITL.
func readAIPerf(dir string) (Report, error) {
	var r struct {
		TTFT     aiperfMetric `json:"time_to_first_token"`
		ITL      aiperfMetric `json:"inter_token_latency"`
		ICL      aiperfMetric `json:"inter_chunk_latency"`
		Requests aiperfMetric `json:"request_count"`
		Failed   aiperfMetric `json:"error_request_count"`
	}
	if err := readJSON(&r, dir, "out", "profile_export_aiperf.json"); err != nil {
		return Report{}, err
	}
	return Report{
		TTFT: r.TTFT.summary(), ITL: r.ICL.summary(), TPOT: r.ITL.summary(), Requests: count(r.Requests.Avg),
		Failed: count(r.Failed.Avg),
	}, nil
}

// count returns a number of requests that is stored as a floating-point number, or 0 if it is missing.
func count(n *float64) int {
	if n == nil {
		return 0
	}
	return int(*n)
}
