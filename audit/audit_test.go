package audit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Files that vLLM 0.32, GuideLLM 0.8.1 and AIPerf 0.13 wrote of the simulator contradict nothing: also with errors,
// with a warm-up that is left out, and with a limit of time that ends after the last answer.
func TestSoundFiles(t *testing.T) {
	files, _ := filepath.Glob("testdata/*")
	if len(files) != 10 {
		t.Fatalf("%d files", len(files))
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := File(data)
		if err != nil || r.Rows != 1 || r.Holds() != 1 {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
		if len(r.Unchecked) > 2 && !strings.Contains(path, "warm") {
			t.Errorf("%s: unchecked %q", path, r.Unchecked)
		}
	}
}

// sound is a block of 200 answers of 100 tokens.
const sound = `============ Serving Benchmark Result ============
Successful requests:                     200
Maximum request concurrency:             8
Benchmark duration (s):                  50.00
Total input tokens:                      200000
Total generated tokens:                  20000
Request throughput (req/s):              4.00
Request goodput (req/s):                 3.90
Output token throughput (tok/s):         400.00
Peak output token throughput (tok/s):    480.00
Total Token throughput (tok/s):          4400.00
Mean TTFT (ms):                          200.00
Median TTFT (ms):                        190.00
P99 TTFT (ms):                           400.00
Mean TPOT (ms):                          15.00
Median TPOT (ms):                        14.90
P99 TPOT (ms):                           18.00
Mean ITL (ms):                           15.00
Median ITL (ms):                         14.00
P99 ITL (ms):                            40.00
Mean E2EL (ms):                          1685.00
Median E2EL (ms):                        1680.00
P99 E2EL (ms):                           2100.00
==================================================
`

// Each number of a sound block, forged, is found.
func TestForgeries(t *testing.T) {
	if r, err := File([]byte(sound)); err != nil || r.Holds() != 1 || len(r.Unchecked) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, forgery := range strings.Split(strings.TrimSpace(`
Successful requests: 200 -> 220
Successful requests: 200 -> 180
Maximum request concurrency: 8 -> 4
Benchmark duration (s): 50.00 -> 45.00
Benchmark duration (s): 50.00 -> 50.50
Benchmark duration (s): 50.00 -> 1.50
Total input tokens: 200000 -> 210000
Total input tokens: 200000 -> 20000
Total generated tokens: 20000 -> 21000
Total generated tokens: 20000 -> 19000
Request throughput (req/s): 4.00 -> 4.10
Request throughput (req/s): 4.00 -> 3.90
Request goodput (req/s): 3.90 -> 4.10
Output token throughput (tok/s): 400.00 -> 441.00
Output token throughput (tok/s): 400.00 -> 396.00
Peak output token throughput (tok/s): 480.00 -> 20001.00
Peak output token throughput (tok/s): 480.00 -> 390.00
Total Token throughput (tok/s): 4400.00 -> 4800.00
Total Token throughput (tok/s): 4400.00 -> 4300.00
Mean TTFT (ms): 200.00 -> 100.00
Mean TTFT (ms): 200.00 -> 90.00
Median TTFT (ms): 190.00 -> 410.00
P99 TTFT (ms): 400.00 -> 2200.00
P99 TTFT (ms): 400.00 -> 180.00
Mean TPOT (ms): 15.00 -> 14.00
Median TPOT (ms): 14.90 -> 31.00
P99 TPOT (ms): 18.00 -> 1501000.00
Mean ITL (ms): 15.00 -> 9.45
P99 ITL (ms): 40.00 -> 13.00
Mean E2EL (ms): 1685.00 -> 1500.00
Mean E2EL (ms): 1685.00 -> 2185.00
Median E2EL (ms): 1680.00 -> 185.00
P99 E2EL (ms): 2100.00 -> 1670.00
P99 E2EL (ms): 2100.00 -> 52000.00`), "\n") {
		label, change, _ := strings.Cut(forgery, ": ")
		from, to, _ := strings.Cut(change, " -> ")
		line := fmt.Sprintf("%-41s%s\n", label+":", from)
		forged := strings.Replace(sound, line, fmt.Sprintf("%s: %s\n", label, to), 1)
		if r, err := File([]byte(forged)); err != nil || forged == sound || r.Contradicted != 1 {
			t.Errorf("%s: %+v, %v", forgery, r, err)
		}
	}
}

// published are two blocks of a report on an H100: of one its mean latency, its rates and its peak cannot be true; in
// the other lengths differ, so that TPOT's mean says nothing of the answers' times.
const published = "### Throughput Profile - Baseline ``` ============ Serving Benchmark Result ============ " +
	"Successful requests: 1000 Maximum request concurrency: 512 Benchmark duration (s): 43.00 Total input tokens: 1033931 " +
	"Total generated tokens: 128000 Request throughput (req/s): 23.26 Output token throughput (tok/s): 3285.25 " +
	"Peak output token throughput (tok/s): 4418690.63 Peak concurrent requests: 512.00 Total Token throughput (tok/s): 29822.16 " +
	"----------------------Latency--------------------- Mean Latency(s): 21.27 ---------------Time to First Token---------------- " +
	"Mean TTFT (ms): 4433.75 P95 TTFT (ms): N/A -----Time per Output Token (excl. 1st token)------ Mean TPOT (ms): 34.63 " +
	"================================================== ``` #### SGLang - Profile: `ShareGPT` ``` " +
	"============ Serving Benchmark Result ============ Successful requests: 1000 Maximum request concurrency: 512 " +
	"Benchmark duration (s): 96.01 Total input tokens: 342058 Total generated tokens: 281412 Request throughput (req/s): 10.42 " +
	"Output token throughput (tok/s): 2933.60 Total Token throughput (tok/s): 6499.41 Mean Latency(s): 39.08 " +
	"Mean TTFT (ms): 26217.15 Mean TPOT (ms): 138.86 Mean ITL (ms): 45.87 =================================================="

func TestPublishedBlocks(t *testing.T) {
	r, err := File([]byte(published))
	if err != nil || r.Rows != 2 || r.Contradicted != 1 || r.Holds() != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	var got []string
	for _, f := range r.Findings {
		got = append(got, fmt.Sprintf("%s %s: %s %s (%+.1f %%)", f.Label, f.Printed, f.Nearest(), f.Identity, 100*f.Off))
	}
	want := `Peak output token throughput (tok/s) 4418690.63: at most 128000 output tokens of the whole test, in a second (+3352.1 %)
Mean Latency(s) 21.27: 8.8318 mean TTFT + mean TPOT x (output tokens - 1) (+140.8 %)
Total Token throughput (tok/s) 29822.16: 27022 (input + output tokens) / duration (+10.4 %)
Output token throughput (tok/s) 3285.25: 2976.7 output tokens / duration (+10.4 %)`
	if strings.Join(got, "\n") != want || r.Findings[0].Name != "Throughput Profile - Baseline" {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), want)
	}
}

// A table: tokens that come faster under more load are in doubt, as is a load that was not there; copies are counted.
func TestTables(t *testing.T) {
	const head = "# Results\n\n| Concurrency | Request Throughput (req/s) | Mean E2E Lantency (ms) | Mean TPOT (ms) |\n|:-:|-|-|-|\n"
	r, err := File([]byte(head + "| 2 | 0.33 | 6044.37 | 35.91 |\n| 4 | 0.35 | 10466.54 | 61.25 |\n| 8 | 2.1 | 3558.4 | **20.34** |\n" +
		"| 8 | 2.1 | 3558.4 | 20.34 |\n\ntext\n\n| a | b |\n|-|-|\n| 1 | 2 |\n"))
	if err != nil || r.Rows != 4 || r.Contradicted != 0 || r.Doubtful != 1 || r.Copies != 1 || len(r.Findings) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if f := r.Findings[0]; f.Line != 7 || f.Name != "Results, Concurrency 8" || f.Nearest() != "at least 61.245" {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = File([]byte(head + "| 4 | 0.45 | 3721.99 | 19.9 |\n| 4 | 2.69 | 3721.99 | 19.9 |\n"))
	if err != nil || r.Contradicted != 1 || r.Doubtful != 1 || r.Findings[1].Printed != "4" || r.Findings[1].Bound != ">=" {
		t.Errorf("%+v, %v", r, err)
	}
	r, err = File([]byte("name,Mean TTFT (ms),P99 TTFT (ms)\na,10.0,9.0\nb,10.0,2000\n"))
	if err != nil || r.Rows != 2 || r.Contradicted != 1 || r.Findings[0].Name != "name b" {
		t.Errorf("%+v, %v", r, err) // of few requests, a mean can be above the 99th percentile
	}
}

// Forms of other tools, as they are published: each with a total rate that is too high by a tenth.
func TestForms(t *testing.T) {
	for name, text := range map[string]string{
		"SGLang": `{"backend":"sglang","duration":10.0,"completed":100,"total_input_tokens":1000,"total_output_tokens":4000,` +
			`"request_throughput":10.0,"total_throughput":550.0,"mean_e2e_latency_ms":400.0,"concurrency":4.0}` + "\n",
		"EvalScope": `{"Time taken for tests (s)":10.0,"Number of concurrency":4,"Succeed requests":100,"Failed requests":0,` +
			`"Output token throughput (tok/s)":400.0,"Total token throughput (tok/s)":550.0,"Request throughput (req/s)":10.0,` +
			`"Average latency (s)":0.4,"Average time to first token (s)":0.1,"Average input tokens per request":10.0,` +
			`"Average output tokens per request":40.0,"Average input token throughput":1}` + "\n",
		"inference-perf": `{"load_summary":{"count":100},"successes":{"count":100,"latency":{"request_latency":{"mean":0.4,"p99":0.5},` +
			`"time_to_first_token":{"mean":0.1,"p99":0.2}},"throughput":{"input_tokens_per_sec":100.0,"output_tokens_per_sec":400.0,` +
			`"total_tokens_per_sec":550.0,"requests_per_sec":10.0},"output_len":{"mean":40.0}},"failures":{"count":0}}`,
		"Spate": `{"stages":[{"target":"a","load":{"words":"concurrency 4","concurrency":4},"duration_s":10.0,"input_tokens":1000,` +
			`"requests":{"completed":100,"failed":0},"output_tokens":4000,"total_token_throughput":550.0,"e2e_ms":{"mean":400.0},` +
			`"server_account":{"ttft_ms":{"client":{"mean":900}}}}]}`,
	} {
		r, err := File([]byte(text))
		if err != nil || r.Rows != 1 || r.Contradicted != 1 || len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Printed, "550") &&
			r.Findings[0].Label != "Average input token throughput" {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func TestUnknownFiles(t *testing.T) {
	for _, text := range []string{"", "hello", "{}", "[1]", `{"stages":[]}`, "a,b\n1,2", "| a |\n|-|\n| 1 |", `{"benchmarks":3}`, "{"} {
		if r, err := File([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, r)
		}
	}
}

// Numbers are as exact as their digits.
func TestRead(t *testing.T) {
	for text, want := range map[string]interval{"200": {200, 200}, "1,200.5": {1200.45, 1200.55}, "0.00": {0, 0.005}, "1.5e3": {1450, 1550}} {
		if got, ok := read(text, 1); !ok || fmt.Sprintf("%.6g", got) != fmt.Sprintf("%.6g", want) {
			t.Errorf("%s: %v", text, got)
		}
	}
	for _, text := range []string{"", "N/A", "-1", "1e999", "NaN"} {
		if got, ok := read(text, 1); ok {
			t.Errorf("%s: %v", text, got)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add([]byte(sound))
	f.Add([]byte(published))
	f.Add([]byte(`{"benchmarks":[{"duration":1e-300,"metrics":{"request_totals":{"successful":5}}}]}`))
	f.Add([]byte("| Concurrency | Mean TPOT (ms) |\n|-|-|\n| 1 | 0.0 |\n| 2 | 1e300 |"))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := File(data)
		if err != nil {
			return
		}
		if r.Holds() < 0 || r.Rows == 0 {
			t.Errorf("%+v", r)
		}
		for _, f := range r.Findings {
			if f.Nearest() == "" || f.Off == 0 {
				t.Errorf("%+v", f)
			}
		}
	})
}

// What other tools wrote of sound tests: a client that was too busy to read the ends of answers, and answers that were
// not streamed.
func TestNoFalseAccusations(t *testing.T) {
	const guidellm = `{"benchmarks": [{"duration": 1.417, "metrics": {"request_totals": {"successful": 40},
		"request_latency": {"successful": {"mean": %s}}, "time_to_first_token_ms": {"successful": {"mean": %s}},
		"inter_token_latency_ms": {"successful": {"mean": %s}},
		"output_token_count": {"successful": {"mean": 36.8, "total_sum": 1472.0}}}}]}`
	for name, of := range map[string]struct {
		values   []any
		doubtful int
	}{
		"late ends":    {[]any{"0.5209314703941346", "204.87776398658752", "4.573872468990986"}, 1},
		"not streamed": {[]any{"0.21225672960281375", "0.0", "0.0"}, 0},
	} {
		r, err := File([]byte(fmt.Sprintf(guidellm, of.values...)))
		if err != nil || r.Contradicted != 0 || r.Doubtful != of.doubtful {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}
