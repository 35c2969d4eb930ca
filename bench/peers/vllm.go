package main

import (
	"fmt"
	"path/filepath"
)

// startVLLM runs `vllm bench serve` through vllm_bench.py.
func startVLLM(j Job) (Command, error) {
	prompts, err := j.prompts(map[string]any{"prompt": j.prompt()})
	if err != nil {
		return Command{}, err
	}
	return Command{
		Args: []string{
			j.program("vllm", "python"), filepath.Join(j.Home, "vllm_bench.py"), "--backend", "openai", "--base-url",
			j.URL, "--model", "m",
			"--tokenizer", j.tokenizer(), "--dataset-name", "custom", "--dataset-path", prompts, "--skip-chat-template",
			"--custom-output-len", fmt.Sprint(j.OSL), "--ignore-eos", "--num-prompts", fmt.Sprint(j.Requests),
			"--max-concurrency", fmt.Sprint(j.Streams),
			"--disable-tqdm", "--ready-check-timeout-sec", "0", "--percentile-metrics", "ttft,tpot,itl",
			"--save-result", "--result-dir", j.Dir, "--result-filename", "result.json",
		},
		Env: offline,
	}, nil
}

// readVLLM reads vLLM's result. Its TTFT counts a chat's role frame, which completions do not have. Otherwise its
// definitions are the same as ours.
func readVLLM(dir string) (Report, error) {
	var r struct {
		Completed, Failed int
		TTFTMean          *float64 `json:"mean_ttft_ms"`
		TTFTMedian        *float64 `json:"median_ttft_ms"`
		TTFTP99           *float64 `json:"p99_ttft_ms"`
		TPOTMean          *float64 `json:"mean_tpot_ms"`
		TPOTMedian        *float64 `json:"median_tpot_ms"`
		TPOTP99           *float64 `json:"p99_tpot_ms"`
		ITLMean           *float64 `json:"mean_itl_ms"`
		ITLMedian         *float64 `json:"median_itl_ms"`
		ITLP99            *float64 `json:"p99_itl_ms"`
	}
	if err := readJSON(&r, dir, "result.json"); err != nil {
		return Report{}, err
	}
	return Report{
		TTFT: Summary{r.TTFTMean, r.TTFTMedian, r.TTFTP99}, TPOT: Summary{r.TPOTMean, r.TPOTMedian, r.TPOTP99},
		ITL: Summary{r.ITLMean, r.ITLMedian, r.ITLP99}, Requests: r.Completed, Failed: r.Failed,
	}, nil
}
