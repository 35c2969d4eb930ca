package plans

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/workload/dataset"
)

// Draft is what a person has to say for a first plan. Zero values take defaults. The plan then shows the defaults, with
// comments about the alternatives.
type Draft struct {
	// Name of the plan. Default "my-plan".
	Name string
	// Endpoints under test. Default: the built-in simulator.
	Endpoints []string
	// Model name. Default "your-model" if there are endpoints.
	Model string
	// API of the endpoints. Default chat.
	API string
	// APIKey is a reference, env:NAME or file:PATH.
	APIKey string
	// Workload is one of DraftWorkloads. Default "random".
	Workload string
	// File of the workload, if its kind needs one.
	File string
	// ISL and OSL are the lengths of input and output in tokens. Default 1000 and 100.
	ISL, OSL uint32
	// Load is one of DraftLoads. Default "concurrency".
	Load string
	// Values of the load: concurrencies, rates, the bounds of a search or a ramp, or the speed of a replay. The default
	// depends on the load.
	Values []float64
	// TTFT and TPOT are the SLO of a request. Default: none; for a search 500 ms and 50 ms.
	TTFT, TPOT time.Duration
}

// draftKind is a kind of workload or load that a draft can have.
type draftKind struct {
	name, help string
	values     []float64 // of a load: the default values
	asks       string    // of a load: what its values mean
	write      func(w *writer, d Draft)
}

// DraftWorkloads returns the kinds of workloads that a draft can have and a description of each, the most common first.
func DraftWorkloads() (names, help []string) { return kindNames(draftWorkloads()) }

// DraftLoads returns the kinds of loads that a draft can have and a description of each, the most common first.
func DraftLoads() (names, help []string) { return kindNames(draftLoads()) }

// DraftValues returns what the values of a kind of load mean, and the default values, separated by commas.
func DraftValues(load string) (what, usual string) {
	k, err := kindOfDraft("load", load, draftLoads())
	if err != nil {
		return "Values of the load", ""
	}
	return k.asks, list(k.values, numeral)
}

func kindNames(kinds []draftKind) (names, help []string) {
	for _, k := range kinds {
		names, help = append(names, k.name), append(help, k.help)
	}
	return names, help
}

// DraftNeedsFile reports whether a kind of workload takes its requests from a file.
func DraftNeedsFile(workload string) bool {
	return slices.ContainsFunc(dataset.Sources(), func(s dataset.Source) bool { return s.Name == workload })
}

// YAML returns the plan as a person would write it, with comments. It returns an error if the kind of workload or load
// is unknown. Load checks the plan itself.
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
	w.line(0, "# Made by `spate plan new`. `spate validate FILE` checks it, `spate plan show FILE` shows its stages, `spate run FILE --simulate` tries it")
	w.line(0, "# without a server, and `spate run FILE` runs it.")
	w.line(0, "")
	w.line(0, "name: %s", scalar(d.Name))
	w.noted(0, "seed: 1", "The same seed sends the same requests.")
	w.line(0, "")
	d.target(w)
	w.noted(0, "workloads:", "What the requests contain. Each is tested at each load.")
	workload.write(w, d)
	w.line(0, "")
	d.slo(w)
	w.noted(0, "loads:", "When requests start. Each value is a stage.")
	load.write(w, d)
	w.line(0, "")
	w.noted(0, "drain_timeout: 60s", "How long requests in flight may go on after a stage's last start.")
	w.noted(0, "# fail_fast: false", "Send the whole load even if all of its first requests fail.")
	w.line(0, "")
	w.line(0, "# On several machines:")
	w.noted(0, "# on_agent_loss: reassign",
		"When an agent is lost: fail, degrade (go on without its part) or reassign (hand it over).")
	w.noted(0, "# regions: {eu: 0.6, us: 0.4}", "Parts of the load by the regions of agents.")
	w.noted(0, "# observers: {rate: 0.5}",
		"An agent of each region measures beside the load, with a light one of its own.")
	return w.Bytes(), nil
}

// noteColumn is the column at which a comment after a line starts.
const noteColumn = 40

// noted writes a line with a comment after it. Comments of short lines are aligned.
func (w *writer) noted(indent int, text, note string) {
	space := max(1, noteColumn-2*indent-utf8.RuneCountInString(text))
	w.line(indent, "%s", text+strings.Repeat(" ", space)+"# "+note)
}

func (d Draft) filled() Draft {
	d.Name, d.API = cmp.Or(d.Name, "my-plan"), cmp.Or(d.API, registry.All[0].Name)
	d.Workload, d.Load = cmp.Or(d.Workload, "random"), cmp.Or(d.Load, "concurrency")
	d.ISL, d.OSL = cmp.Or(d.ISL, 1000), cmp.Or(d.OSL, 100)
	if d.Load == "search" && d.TTFT == 0 && d.TPOT == 0 {
		d.TTFT, d.TPOT = 500*time.Millisecond, 50*time.Millisecond
	}
	if len(d.Endpoints) > 0 {
		d.Model = cmp.Or(d.Model, "your-model")
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
	w.noted(0, "targets:", "What is tested. Several targets are compared.")
	defer w.line(0, "")
	if len(d.Endpoints) == 0 {
		w.line(1, "- name: simulated")
		w.noted(2, "simulator: {}", "The built-in simulator. For a server, in its place:")
		w.line(2, "# endpoints: [\"http://host:8000\"]")
		w.line(2, "# model: Qwen/Qwen3-32B")
		w.noted(2, "api: "+scalar(d.API), strings.Join(registry.Names(), ", ")+".")
		return
	}
	w.line(1, "- name: server")
	w.noted(2, "endpoints:", "Requests go to them in turn.")
	for _, e := range d.Endpoints {
		w.line(3, "- %s", scalar(withoutPassword(e)))
	}
	w.noted(2, "api: "+scalar(d.API), strings.Join(registry.Names(), ", ")+".")
	w.line(2, "model: %s", scalar(d.Model))
	if d.APIKey != "" {
		w.line(2, "api_key: %s", scalar(withoutKey(d.APIKey)))
	} else {
		w.noted(2, "# api_key: env:API_KEY", "Where the key is; never the key itself.")
	}
	w.noted(2, "# body: {temperature: 0}", "Sent along with each request.")
}

func (d Draft) slo(w *writer) {
	defer w.line(0, "")
	const note = "What each request has to keep to count into goodput."
	if d.TTFT == 0 && d.TPOT == 0 {
		w.noted(0, "# slo: {ttft: 500ms, tpot: 50ms}", note)
		return
	}
	var parts []string
	if d.TTFT != 0 {
		parts = append(parts, "ttft: "+durationWords(d.TTFT))
	}
	if d.TPOT != 0 {
		parts = append(parts, "tpot: "+durationWords(d.TPOT))
	}
	w.noted(0, "slo: {"+strings.Join(parts, ", ")+"}", note)
}

// draftWorkloads returns the kinds of workloads.
func draftWorkloads() []draftKind {
	kinds := []draftKind{
		{name: "random", help: "random tokens of exact length", write: func(w *writer, d Draft) {
			w.noted(1, fmt.Sprintf("- random: {isl: %d, osl: %d}", d.ISL, d.OSL),
				"Tokens in and out. For lengths that differ, in place of isl:")
			w.line(2, "# isl_lengths: {lognormal: {mean: 500, stddev: 300}}")
		}},
		{name: "sessions", help: "conversations of several turns with history", write: func(w *writer, d Draft) {
			w.line(1, "- sessions:")
			w.noted(3, "turns: 4", "Requests of a conversation.")
			w.noted(3, fmt.Sprintf("isl: %d", d.ISL), "New tokens of each turn; the history comes on top.")
			w.line(3, "osl: %d", d.OSL)
			w.noted(3, "play:", "Time between an answer and the next turn.")
			w.line(4, "think_time: {mean: 2s, distribution: exponential}")
		}},
	}
	for _, source := range dataset.Sources() {
		kinds = append(kinds, draftKind{name: source.Name, help: source.Help, write: func(w *writer, d Draft) {
			w.line(1, "- %s:", source.Name)
			w.noted(3, "path: "+scalar(d.File), source.Example)
			if source.Name == "sonnet" {
				w.line(3, "isl: %d", d.ISL)
				w.line(3, "osl: %d", d.OSL)
				w.noted(3, fmt.Sprintf("prefix: %d", min(50, d.ISL)), "Tokens that all prompts begin with.")
			}
		}})
	}
	return kinds
}

// draftLoads returns the kinds of loads.
func draftLoads() []draftKind {
	warmup := func(w *writer) { w.noted(2, "warmup: {duration: 10s}", "Left out of the results.") }
	return []draftKind{
		{name: "concurrency", help: "closed loop: so many requests in flight",
			asks: "Requests in flight, a stage for each value", values: []float64{1, 2, 4, 8, 16, 32, 64},
			write: func(w *writer, d Draft) {
				w.line(1, "- concurrency: [%s]", list(d.Values, numeral))
				d.end(w)
			}},
		{name: "rate", help: "open loop: so many requests per second",
			asks: "Requests per second, a stage for each value", values: []float64{1, 2, 4, 8},
			write: func(w *writer, d Draft) {
				w.line(1, "- rate: [%s]", list(d.Values, numeral))
				w.noted(2, "arrival: poisson", "Or constant, or gamma with burstiness.")
				w.line(2, "duration: 60s")
				warmup(w)
			}},
		{name: "search", help: "the highest rate that keeps the SLO",
			asks: "Lowest and highest rate, in requests per second", values: []float64{1, 1000},
			write: func(w *writer, d Draft) {
				w.line(1, "- search:")
				w.noted(3, d.bounds("rate: {from: %s, to: %s}"), "The search begins at the lower one, and doubles.")
				w.line(3, "keep:")
				w.line(4, "latencies:")
				if d.TTFT != 0 {
					w.line(5, "- {metric: ttft, percentile: 99, at_most: %s}", durationWords(d.TTFT))
				}
				if d.TPOT != 0 {
					w.line(5, "- {metric: tpot, percentile: 99, at_most: %s}", durationWords(d.TPOT))
				}
				w.noted(4, "error_share: 0.01", "Of the requests, at most this share may fail.")
				w.noted(3, "precision: 0.03", "It ends when what is too much is at most 3 % above what is not.")
				w.noted(2, "duration: 30s", "Of each stage.")
				warmup(w)
			}},
		{name: "sweep", help: "rates between one request at a time and a saturated server",
			asks: "Rates between the two", values: []float64{8}, write: func(w *writer, d Draft) {
				w.line(1, "- sweep:")
				w.noted(3, "points: "+numeral(d.Values[0]), "Rates between the two throughputs.")
				w.noted(3, "saturation: 256", "Requests in flight that surely saturate the server.")
				w.noted(2, "duration: 30s", "Of each stage.")
			}},
		{name: "ramp", help: "a rate that climbs and then holds",
			asks: "Rate at the begin and at the end, in requests per second", values: []float64{1, 20},
			write: func(w *writer, d Draft) {
				w.noted(1, "- rate_phases:", "Requests per second.")
				w.line(3, "%s", d.bounds("- {from: %s, to: %s, duration: 60s}"))
				w.line(3, "- {from: %s, duration: 60s}", numeral(d.Values[len(d.Values)-1]))
			}},
		{name: "replay", help: "the times of a trace", asks: "Times faster than the trace", values: []float64{1},
			write: func(w *writer, d Draft) {
				w.noted(1, fmt.Sprintf("- replay: {speed: %s}", numeral(d.Values[0])),
					"So many times faster than the trace.")
			}},
	}
}

// bounds formats the first and the last value.
func (d Draft) bounds(format string) string {
	return fmt.Sprintf(format, numeral(d.Values[0]), numeral(d.Values[len(d.Values)-1]))
}

// end writes the end of a closed loop. Sessions end by time.
func (d Draft) end(w *writer) {
	if d.Workload == "sessions" {
		w.noted(2, "duration: 60s", "Of each stage. By number: sessions: 100")
		return
	}
	w.noted(2, "requests_per_concurrency: 10", "A stage ends after ten rounds of each slot. By time: duration: 60s")
}

func numeral(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
