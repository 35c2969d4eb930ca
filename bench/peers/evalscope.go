package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// startEvalScope runs `evalscope perf`.
func startEvalScope(j Job) (Command, error) {
	prompts := filepath.Join(j.Dir, "prompts.txt")
	if err := os.WriteFile(prompts, []byte(strings.Repeat(j.prompt()+"\n", j.Requests)), 0o600); err != nil {
		return Command{}, err
	}
	return Command{
		Args: []string{
			j.program("evalscope", "evalscope"), "perf", "--url", j.URL + "/v1/completions", "--api", "openai",
			"--model", "m", "--stream",
			"--parallel", fmt.Sprint(j.Streams), "--number", fmt.Sprint(j.Requests), "--dataset", "line_by_line",
			"--dataset-path", prompts,
			"--tokenizer-path", j.tokenizer(), "--max-tokens", fmt.Sprint(j.OSL), "--min-tokens", fmt.Sprint(j.OSL),
			"--extra-args", `{"ignore_eos":true}`,
			"--no-test-connection", "--outputs-dir", filepath.Join(j.Dir, "out"),
		},
		Env: offline,
	}, nil
}

// readEvalScope reads EvalScope's summary and percentiles. Its definitions are the same as ours. It rounds to 0.01 ms
// or finer.
func readEvalScope(dir string) (Report, error) {
	var s struct {
		TTFT      *float64 `json:"Avg TTFT (ms)"`
		TPOT      *float64 `json:"Avg TPOT (ms)"`
		ITL       *float64 `json:"Avg ITL (ms)"`
		Succeeded int      `json:"Success Requests"`
		Failed    int      `json:"Failed Requests"`
	}
	run := filepath.Join(dir, "out", "*", "m", "parallel_*")
	if err := readJSON(&s, run, "benchmark_summary.json"); err != nil {
		return Report{}, err
	}
	var rows []struct {
		Percentile string   `json:"Percentiles"`
		TTFT       *float64 `json:"TTFT (ms)"`
		TPOT       *float64 `json:"TPOT (ms)"`
		ITL        *float64 `json:"ITL (ms)"`
	}
	if err := readJSON(&rows, run, "benchmark_percentile.json"); err != nil {
		return Report{}, err
	}
	r := Report{TTFT: Summary{Mean: s.TTFT}, TPOT: Summary{Mean: s.TPOT}, ITL: Summary{Mean: s.ITL},
		Requests: s.Succeeded, Failed: s.Failed}
	for _, row := range rows {
		switch row.Percentile {
		case "50%":
			r.TTFT.P50, r.TPOT.P50, r.ITL.P50 = row.TTFT, row.TPOT, row.ITL
		case "99%":
			r.TTFT.P99, r.TPOT.P99, r.ITL.P99 = row.TTFT, row.TPOT, row.ITL
		}
	}
	return r, nil
}
