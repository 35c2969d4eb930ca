package main

import (
	"fmt"
	"path/filepath"
)

// startGuideLLM runs `guidellm run` with one worker process instead of up to ten, because all of its processes share
// one core here.
func startGuideLLM(j Job) (Command, error) {
	prompts, err := j.prompts(map[string]any{"prompt": j.prompt(), "output_tokens_count": j.OSL})
	if err != nil {
		return Command{}, err
	}
	return Command{
		Args: []string{
			j.program("guidellm", "guidellm"), "run",
			"--backend", "kind=openai_http,target=" + j.URL + ",model=m,request_format=/v1/completions",
			"--profile", fmt.Sprintf("kind=concurrent,streams=%d", j.Streams), "--constraint",
			fmt.Sprintf("kind=max_requests,count=%d", j.Requests),
			"--tokenizer", "kind=huggingface_auto,model=" + j.tokenizer(), "--data", "kind=json_file,path=" + prompts,
			"--output", "kind=json,path=" + filepath.Join(j.Dir, "out.json"), "--disable-console",
		},
		Env: append([]string{"GUIDELLM__MAX_WORKER_PROCESSES=1"}, offline...),
	}, nil
}

// guidellmMetric is a metric of GuideLLM's report, for the requests that succeeded.
type guidellmMetric struct {
	Successful struct {
		Mean, Median *float64
		Percentiles  struct{ P99 *float64 }
	}
}

func (m guidellmMetric) summary() Summary {
	s := m.Successful
	return Summary{Mean: s.Mean, P50: s.Median, P99: s.Percentiles.P99}
}

// readGuideLLM reads GuideLLM's report. Its inter-token latency is a mean per request, weighted by tokens: the same as
// our TPOT, since all outputs have the same length. Its "time per output token" also counts the first token and matches
// none of our metrics. It does not report single gaps.
func readGuideLLM(dir string) (Report, error) {
	var r struct {
		Benchmarks []struct {
			Metrics struct {
				Totals struct{ Successful, Errored int } `json:"request_totals"`
				TTFT   guidellmMetric                    `json:"time_to_first_token_ms"`
				ITL    guidellmMetric                    `json:"inter_token_latency_ms"`
			}
		}
	}
	if err := readJSON(&r, dir, "out.json"); err != nil {
		return Report{}, err
	}
	if len(r.Benchmarks) != 1 {
		return Report{}, fmt.Errorf("guidellm: %d benchmarks, want 1", len(r.Benchmarks))
	}
	m := r.Benchmarks[0].Metrics
	return Report{TTFT: m.TTFT.summary(), TPOT: m.ITL.summary(), Requests: m.Totals.Successful,
		Failed: m.Totals.Errored}, nil
}
