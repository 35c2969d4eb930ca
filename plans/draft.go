package plans

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Draft is the little that a person says of a first plan. Zero values take defaults, which the plan then shows, with comments that say
// what else there is.
type Draft struct {
	// Name of the plan. Default "my-plan".
	Name string
	// Endpoints under test. Default: the built-in simulator.
	Endpoints []string
	// Model name. Default "your-model" where there are endpoints.
	Model string
	// API of the endpoints. Default chat.
	API string
	// APIKey is a reference, env:NAME or file:PATH.
	APIKey string
	// Workload is one of DraftWorkloads. Default "random".
	Workload string
	// File of the workload, for those that take one.
	File string
	// ISL and OSL are the lengths of input and output in tokens. Default 1000 and 100.
	ISL, OSL uint32
	// Load is one of DraftLoads. Default "concurrency".
	Load string
	// Values of the load: concurrencies, rates, the bounds of a search or a ramp, the speed of a replay. Default: what is usual.
	Values []float64
	// TTFT and TPOT are what a request has to keep. Default: none; a search takes 500 ms and 50 ms.
	TTFT, TPOT time.Duration
}

// draftKind is something that a draft can be made of.
type draftKind struct {
	name, help string
	values     []float64 // of a load
	write      func(w *writer, d Draft)
}

// DraftWorkloads returns the kinds of workloads of a draft, and what each is, in the order in which people want them.
func DraftWorkloads() (names, help []string) { return kindNames(draftWorkloads()) }

// DraftLoads returns the kinds of loads of a draft, and what each is, in the order in which people want them.
func DraftLoads() (names, help []string) { return kindNames(draftLoads()) }

func kindNames(kinds []draftKind) (names, help []string) {
	for _, k := range kinds {
		names, help = append(names, k.name), append(help, k.help)
	}
	return names, help
}

// DraftNeedsFile says whether a kind of workload takes its requests from a file.
func DraftNeedsFile(workload string) bool {
	return slices.Contains([]string{"sharegpt", "jsonl", "sonnet", "mooncake", "burstgpt", "azure"}, workload)
}

// YAML returns the plan as a person would write it, with comments. The error says which word of the draft is not known; whether the
// plan is right is for Load to say.
func (d Draft) YAML() ([]byte, error) {
	d = d.filled()
	workload, err := kindOfDraft("workload", d.Workload, draftWorkloads())
	if err != nil {
		return nil, err
	}
	load, err := kindOfDraft("load", d.Load, draftLoads())
	if err != nil {
		return nil, err
	}
	if len(d.Values) == 0 {
		d.Values = load.values
	}
	w := &writer{}
	w.line(0, "# Made by: spate plan new. Check it with `spate validate FILE`, see its stages with `spate plan show FILE`, try it without a server")
	w.line(0, "# with `spate run FILE --simulate`, and run it with `spate run FILE`.")
	w.line(0, "")
	w.line(0, "name: %s", scalar(d.Name))
	w.line(0, "seed: 1                               # The same seed sends the same requests.")
	w.line(0, "")
	d.target(w)
	w.line(0, "workloads:                            # What the requests contain. Each is tested at each load.")
	workload.write(w, d)
	w.line(0, "")
	d.slo(w)
	w.line(0, "loads:                                # When requests start. Each value is a stage.")
	load.write(w, d)
	w.line(0, "")
	w.line(0, "drain_timeout: 60s                    # How long requests in flight may go on after a stage's last start.")
	return w.Bytes(), nil
}

func (d Draft) filled() Draft {
	d.Name, d.API = or(d.Name, "my-plan"), or(d.API, defaultAPI)
	d.Workload, d.Load = or(d.Workload, "random"), or(d.Load, "concurrency")
	d.ISL, d.OSL = or(d.ISL, 1000), or(d.OSL, 100)
	if d.Load == "search" && d.TTFT == 0 && d.TPOT == 0 {
		d.TTFT, d.TPOT = 500*time.Millisecond, 50*time.Millisecond
	}
	if len(d.Endpoints) > 0 {
		d.Model = or(d.Model, "your-model")
	}
	return d
}

func kindOfDraft(what, name string, kinds []draftKind) (draftKind, error) {
	for _, k := range kinds {
		if k.name == name {
			return k, nil
		}
	}
	names, _ := kindNames(kinds)
	return draftKind{}, fmt.Errorf("no %s is called %q: want one of %s", what, name, strings.Join(names, ", "))
}

func (d Draft) target(w *writer) {
	w.line(0, "targets:                              # What is tested. Several targets are compared.")
	if len(d.Endpoints) == 0 {
		w.line(1, "- name: simulated")
		w.line(2, "simulator: {}                     # The built-in simulator. For a server of yours: endpoints: [\"http://host:8000\"], and model.")
		w.line(2, "api: %s", scalar(d.API))
		w.line(0, "")
		return
	}
	w.line(1, "- name: server")
	w.line(2, "endpoints:                        # Requests go to them in turn.")
	for _, e := range d.Endpoints {
		w.line(3, "- %s", scalar(withoutPassword(e)))
	}
	w.line(2, "api: %s                         # chat or completions.", scalar(d.API))
	w.line(2, "model: %s", scalar(d.Model))
	if d.APIKey != "" {
		w.line(2, "api_key: %s", scalar(withoutKey(d.APIKey)))
	} else {
		w.line(2, "# api_key: env:API_KEY            # Where the key is; never the key itself.")
	}
	w.line(2, "# body: {temperature: 0}          # Sent along with each request.")
	w.line(0, "")
}

func (d Draft) slo(w *writer) {
	if d.TTFT == 0 && d.TPOT == 0 {
		w.line(0, "# slo: {ttft: 500ms, tpot: 50ms}      # What each request has to keep to count into goodput.")
		w.line(0, "")
		return
	}
	var parts []string
	if d.TTFT != 0 {
		parts = append(parts, "ttft: "+durationWords(d.TTFT))
	}
	if d.TPOT != 0 {
		parts = append(parts, "tpot: "+durationWords(d.TPOT))
	}
	w.line(0, "slo: {%s}         # What each request has to keep to count into goodput.", strings.Join(parts, ", "))
	w.line(0, "")
}

// draftWorkloads are the workloads of a draft.
func draftWorkloads() []draftKind {
	file := func(field, note string) func(*writer, Draft) {
		return func(w *writer, d Draft) {
			w.line(1, "- %s:", field)
			w.line(3, "path: %s      # %s", scalar(d.File), note)
		}
	}
	return []draftKind{
		{name: "random", help: "random tokens of exact length", write: func(w *writer, d Draft) {
			w.line(1, "- random: {isl: %d, osl: %d}      # Tokens in and out. Lengths that differ: isl_lengths: {lognormal: {mean: 500, stddev: 300}}", d.ISL, d.OSL)
		}},
		{name: "sessions", help: "conversations of several turns with history", write: func(w *writer, d Draft) {
			w.line(1, "- sessions:")
			w.line(3, "turns: 4                    # Requests of a conversation.")
			w.line(3, "isl: %d                    # New tokens of each turn.", d.ISL)
			w.line(3, "osl: %d", d.OSL)
			w.line(3, "play: {think_time: {mean: 2s, distribution: exponential}}")
		}},
		{name: "sharegpt", help: "conversations of a ShareGPT JSON file", write: file("sharegpt", "ShareGPT JSON, plain or compressed.")},
		{name: "jsonl", help: "prompts, messages or token ids of a JSONL file", write: file("jsonl", `Lines such as {"prompt": "...", "osl": 100}.`)},
		{name: "sonnet", help: "lines of a text file, as vLLM's sonnet dataset", write: func(w *writer, d Draft) {
			file("sonnet", "Any text.")(w, d)
			w.line(3, "isl: %d", d.ISL)
			w.line(3, "osl: %d", d.OSL)
			w.line(3, "prefix: %d                 # Tokens that all prompts begin with.", min(50, d.ISL))
		}},
		{name: "mooncake", help: "a trace in Mooncake's form, with its common prefixes", write: file("mooncake", "timestamp, input_length, output_length, hash_ids.")},
		{name: "burstgpt", help: "a trace in BurstGPT's form", write: file("burstgpt", "CSV of BurstGPT.")},
		{name: "azure", help: "a trace in the form of the Azure LLM inference traces", write: file("azure", "CSV with TIMESTAMP, ContextTokens, GeneratedTokens.")},
	}
}

// draftLoads are the loads of a draft.
func draftLoads() []draftKind {
	warmup := func(w *writer) { w.line(2, "warmup: {duration: 10s}           # Left out of the results.") }
	return []draftKind{
		{name: "concurrency", help: "closed loop: so many requests in flight", values: []float64{1, 2, 4, 8, 16, 32, 64}, write: func(w *writer, d Draft) {
			w.line(1, "- concurrency: [%s]", list(d.Values, numeral))
			w.line(2, "%s", d.end("requests_per_concurrency: 10      # A stage ends after ten rounds of each slot. By time: duration: 60s"))
		}},
		{name: "rate", help: "open loop: so many requests per second", values: []float64{1, 2, 4, 8}, write: func(w *writer, d Draft) {
			w.line(1, "- rate: [%s]", list(d.Values, numeral))
			w.line(2, "arrival: poisson                  # Or constant, or gamma with burstiness.")
			w.line(2, "duration: 60s")
			warmup(w)
		}},
		{name: "search", help: "the highest rate that keeps the SLO", values: []float64{1, 1000}, write: func(w *writer, d Draft) {
			w.line(1, "- search:")
			w.line(3, "rate: {from: %s, to: %s}", numeral(d.Values[0]), numeral(d.Values[len(d.Values)-1]))
			w.line(3, "keep:")
			w.line(4, "latencies:")
			if d.TTFT != 0 {
				w.line(5, "- {metric: ttft, percentile: 99, at_most: %s}", durationWords(d.TTFT))
			}
			if d.TPOT != 0 {
				w.line(5, "- {metric: tpot, percentile: 99, at_most: %s}", durationWords(d.TPOT))
			}
			w.line(4, "error_share: 0.01")
			w.line(3, "precision: 0.03             # How close the highest rate that keeps it and the lowest that does not shall be.")
			w.line(2, "duration: 30s                     # Of each stage.")
			warmup(w)
		}},
		{name: "sweep", help: "rates between one request at a time and a saturated server", values: []float64{8}, write: func(w *writer, d Draft) {
			w.line(1, "- sweep: {points: %s, saturation: 256}", numeral(d.Values[0]))
			w.line(2, "duration: 30s                     # Of each stage.")
		}},
		{name: "ramp", help: "a rate that climbs", values: []float64{1, 20}, write: func(w *writer, d Draft) {
			w.line(1, "- rate_phases:")
			w.line(3, "- {from: %s, to: %s, duration: 60s}", numeral(d.Values[0]), numeral(d.Values[len(d.Values)-1]))
			w.line(3, "- {from: %s, duration: 60s}", numeral(d.Values[len(d.Values)-1]))
		}},
		{name: "replay", help: "the times of a trace", values: []float64{1}, write: func(w *writer, d Draft) {
			w.line(1, "- replay: {speed: %s}                # So many times faster than the trace.", numeral(d.Values[0]))
		}},
	}
}

// end is the end of a closed loop: sessions are counted as such.
func (d Draft) end(requests string) string {
	if d.Workload == "sessions" {
		return "duration: 60s"
	}
	return requests
}

func numeral(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
