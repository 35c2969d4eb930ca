// Package engine compares Spate's numbers with a real engine's own account of the same requests: vLLM's histograms. It
// needs a vLLM that nobody else uses at the same time:
//
//	make test-engine ENGINE=http://127.0.0.1:8000
//
// It reads the engine's metrics itself, and shares no code with Spate. Load goes to loopback only.
package engine

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/internal/process"
)

var (
	engine  = flag.String("engine.url", "", "base URL of a vLLM on loopback that nobody else uses")
	streams = flag.String("engine.streams", "1 4 16", "numbers of concurrent streams")
	apis    = flag.String("engine.apis", "chat completions responses anthropic", "APIs to try")
	ends    = flag.Int("engine.eos", 0,
		"id of the token that ends an output: tried with natural ends too, if it is given")
)

// handled is the metric for the time that the engine's HTTP server spends on a request. The engine's histograms start
// only when it has read and tokenized the prompt, which its single thread does for one request after another. They end
// before the last frames are written. So E2E must match the HTTP server's time. TTFT must lie between the engine's TTFT
// and that plus all of the HTTP server's time before it.
const handled = "http_request_duration_seconds"

// Tolerances: for means of TPOT and ITL, and for TTFT and E2E in addition to the time on the wire.
const (
	relative  = 0.003
	wire      = 1.0  // ms
	perStream = 0.05 // ms, as one thread writes the frames of a step one stream after the other
	wirePart  = 0.005
	// textlessHeads is the share of answers whose first token has no text: vLLM's Anthropic frontend sends no frame for
	// such a token.
	textlessHeads = 0.25
)

// account holds, by metric, the sum in seconds and the count of all requests so far.
type account map[string][2]float64

// metrics are the compared metrics, by their names in results.json.
var metrics = map[string]string{
	"ttft_ms": "vllm:time_to_first_token_seconds",
	"tpot_ms": "vllm:request_time_per_output_token_seconds",
	"itl_ms":  "vllm:inter_token_latency_seconds",
	"e2e_ms":  "vllm:e2e_request_latency_seconds",
}

func TestNumbersAreTheEnginesOwn(t *testing.T) {
	if *engine == "" {
		t.Skip("no engine is given: make test-engine ENGINE=http://127.0.0.1:8000 tests against a vLLM of yours")
	}
	u, err := url.Parse(*engine)
	if err != nil || u.Hostname() != "127.0.0.1" && u.Hostname() != "localhost" && u.Hostname() != "::1" {
		t.Fatalf("%s is not on loopback: load goes nowhere else", *engine)
	}
	programs, err := process.Build()
	if err != nil {
		t.Fatal(err)
	}
	model := modelOf(t)
	for api := range strings.FieldsSeq(*apis) {
		for n := range strings.FieldsSeq(*streams) {
			t.Run(api+" "+n, func(t *testing.T) { compare(t, programs.Spate, model, api, n, "exact_output: always") })
			if *ends > 0 && (api == "chat" || api == "completions") {
				natural := fmt.Sprintf("exact_output: never, body: {logit_bias: {%q: 3}}", strconv.Itoa(*ends))
				t.Run(api+" "+n+" natural ends",
					func(t *testing.T) { compare(t, programs.Spate, model, api, n, natural) })
			}
		}
	}
}

// compare runs a stage and compares its means with the growth of the engine's account.
func compare(t *testing.T, spate, model, api, concurrency, ends string) {
	n, err := strconv.Atoi(concurrency)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	plan := filepath.Join(dir, "plan.yaml")
	text := fmt.Sprintf(`
name: engine
seed: %d
targets: [{name: engine, endpoints: [%q], model: %q, api: %s, %s}]
workloads: [{random: {isl: 100, osl: 100}}]
loads: [{concurrency: [1], requests: 2}, {concurrency: [%d], requests: %d}]
pause: 5s
`, time.Now().UnixNano()%1e6, *engine, model, api, ends, n, max(20, 6*n))
	if err := os.WriteFile(plan, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run := process.Start(t, spate, "run", plan, "--out", filepath.Join(dir, "run"), "--agents", "1")
	run.Await(`\[1/2\][^█░\n]* 2 done`) // requests of the preparation and the first stage are not compared
	before := quiet(t)
	run.MustExit(0)
	requests, client := resultOf(t, filepath.Join(dir, "run"))
	after := settled(t, before, requests)
	e2e, _ := grown(before, after, metrics["e2e_ms"])
	whole, counted := grown(before, after, handled)
	if counted != requests {
		t.Fatalf("the engine's HTTP server reports %v requests, %v were sent: does somebody else use it?",
			counted, requests)
	}
	intake := whole - e2e
	t.Logf("the engine's HTTP server takes %.3f ms before and after the engine", intake)
	for name, metric := range metrics {
		server, count := grown(before, after, metric)
		mean := client[name].Mean
		switch name {
		case "itl_ms":
			mean *= client[name].Count / count // a busy frontend sends two tokens in one frame, which is one gap
		case "tpot_ms":
			server *= count / client[name].Count // vLLM counts 0 for an answer of one token, which has no TPOT
		}
		low, high := accepted(name, n, server, intake)
		if api == "anthropic" && name == "ttft_ms" {
			gap, _ := grown(before, after, metrics["itl_ms"])
			high += textlessHeads * gap
		}
		t.Logf("%s: client %.3f ms of %.0f, engine %.3f ms of %.0f: %+.3f ms, %+.2f %%; %.3f to %.3f is right",
			name, mean, client[name].Count, server, count, mean-server, 100*(mean/server-1), low, high)
		if mean < low || mean > high {
			t.Errorf("%s is %.3f ms, beyond %.3f to %.3f", name, mean, low, high)
		}
	}
}

// accepted returns the accepted range of a client's mean in ms, given the number of streams, the engine's mean, and the
// time of the HTTP server around it.
func accepted(name string, streams int, engine, intake float64) (low, high float64) {
	off := wire + perStream*float64(streams) + wirePart*engine
	switch name {
	case "ttft_ms":
		return engine - off, engine + intake + off
	case "e2e_ms":
		return engine + intake - off, engine + intake + off
	default:
		return (1 - relative) * engine, (1 + relative) * engine
	}
}

// grown returns the mean, in ms, and the count of what was added to a metric.
func grown(before, after account, metric string) (mean, count float64) {
	sum, count := after[metric][0]-before[metric][0], after[metric][1]-before[metric][1]
	return 1000 * sum / count, count
}

// distribution is a part of a distribution in results.json.
type distribution struct{ Mean, Count float64 }

// resultOf reads a run's results: the number of completed requests and their means.
func resultOf(t *testing.T, dir string) (requests float64, means map[string]distribution) {
	data, err := os.ReadFile(filepath.Join(dir, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	var result struct{ Stages []map[string]json.RawMessage }
	if err := json.Unmarshal(data, &result); err != nil {
		t.Fatal(err)
	}
	stage := result.Stages[1]
	var counts struct{ Completed, Failed float64 }
	if err := json.Unmarshal(stage["requests"], &counts); err != nil || counts.Failed > 0 {
		t.Fatalf("%v requests failed; %v", counts.Failed, err)
	}
	means = map[string]distribution{}
	for name := range metrics {
		var d distribution
		if err := json.Unmarshal(stage[name], &d); err != nil || d.Count == 0 {
			t.Fatalf("no %s: %v", name, err)
		}
		means[name] = d
	}
	return counts.Completed, means
}

// quiet reads the engine's account after it has stopped growing.
func quiet(t *testing.T) account {
	const e2e = "vllm:e2e_request_latency_seconds"
	last, same := read(t), 0
	for tick := time.NewTicker(200 * time.Millisecond); same < 5; same++ {
		<-tick.C
		now := read(t)
		if now[e2e] != last[e2e] {
			same = 0
		}
		last = now
	}
	return last
}

// settled reads the engine's account when it covers all requests. The engine counts a request shortly after its answer
// was sent.
func settled(t *testing.T, before account, requests float64) account {
	const e2e = "vllm:e2e_request_latency_seconds"
	for deadline := time.Now().Add(10 * time.Second); ; {
		now := read(t)
		switch count := now[e2e][1] - before[e2e][1]; {
		case count == requests:
			return now
		case count > requests || time.Now().After(deadline):
			t.Fatalf("the engine counts %v requests, %v were sent: does somebody else use it?", count, requests)
		}
	}
}

// read reads the engine's account, summed over all labels.
func read(t *testing.T) account {
	answer, err := http.Get(*engine + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	all := account{}
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		name, value, ok := strings.Cut(lines.Text(), " ")
		name, _, _ = strings.Cut(name, "{")
		metric, what, found := cutLast(name, "_")
		v, err := strconv.ParseFloat(value, 64)
		if !ok || !found || err != nil {
			continue
		}
		sums := all[metric]
		switch what {
		case "sum":
			sums[0] += v
		case "count":
			sums[1] += v
		default:
			continue
		}
		all[metric] = sums
	}
	return all
}

// cutLast cuts a text at the last separator.
func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}

// modelOf asks the engine which model it serves.
func modelOf(t *testing.T) string {
	answer, err := http.Get(*engine + "/v1/models")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var list struct{ Data []struct{ ID string } }
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil || len(list.Data) == 0 {
		t.Fatalf("the engine lists no model: %v", err)
	}
	return list.Data[0].ID
}
