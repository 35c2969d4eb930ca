package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// Markdown returns the tables: one for each load, with one row for each tool, and medians of the rounds.
func (r *Results) Markdown() string {
	var b strings.Builder
	low, high := r.loadAverages()
	fmt.Fprintf(&b, "Measured on %s, %s, %d cores, Linux %s, %s. Rounds: %d, medians. Load average of the machine before the runs: %.1f to %.1f.\n\n",
		r.Started.Format("2006-01-02 15:04 UTC"), r.Machine.CPU, r.Machine.Cores, r.Machine.Kernel, r.Machine.Go,
		r.Rounds, low, high)
	var versions []string
	for _, t := range tools {
		if v, ok := r.Versions[t.Name]; ok {
			versions = append(versions, t.Name+" "+v)
		}
	}
	fmt.Fprintf(&b, "Versions: %s.\n", strings.Join(versions, ", "))
	for _, l := range r.loads() {
		r.table(&b, l)
	}
	return b.String()
}

func (r *Results) loadAverages() (low, high float64) {
	for i, run := range r.Runs {
		if i == 0 {
			low, high = run.LoadAverage, run.LoadAverage
		}
		low, high = min(low, run.LoadAverage), max(high, run.LoadAverage)
	}
	return low, high
}

// loads returns the loads that ran, in order.
func (r *Results) loads() []Load {
	var loads []Load
	for _, run := range r.Runs {
		if !slices.Contains(loads, run.Load) {
			loads = append(loads, run.Load)
		}
	}
	return loads
}

func (r *Results) table(b *strings.Builder, l Load) {
	fmt.Fprintf(b, "\n### %s, %d streams\n\n", l.Shape, l.Streams)
	fmt.Fprintf(b, "%d requests of %d prompt and %d output tokens; the server's TTFT is %v and its ITL %v.\n\n",
		l.Requests, l.ISL, l.OSL, l.TTFT, l.ITL)
	b.WriteString("| | TTFT - truth: mean, p50, p99 (ms) | TTFT - truth since arrival: mean, p50, p99 (ms) | ITL - truth: mean, p50, p99 (ms) | TPOT - truth: mean, p50, p99 (ms) | CPU s per 1M tokens: from the first request on, whole run | peak memory (MiB) | run (s) |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, t := range tools {
		runs := slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool {
			return run.Tool != t.Name ||
				run.Load != l
		})
		if len(runs) > 0 {
			row(b, t.Name, runs)
		}
	}
	truths(b, slices.DeleteFunc(slices.Clone(r.Runs), func(run Run) bool { return run.Load != l || run.Failure != "" }))
}

// row writes a tool's row. If some of its runs failed, the row says how many, and shows the others.
func row(b *strings.Builder, name string, runs []Run) {
	good := slices.DeleteFunc(slices.Clone(runs), func(run Run) bool { return run.Failure != "" })
	if len(good) == 0 {
		fmt.Fprintf(b, "| %s | %s | | | | | | |\n", name, cell(runs[0].Failure))
		return
	}
	if len(good) < len(runs) {
		name += fmt.Sprintf(" (%d of %d runs)", len(good), len(runs))
	}
	over := func(value func(Run) *float64) string { return number(median(each(good, value))) }
	of := func(pick func(Run) Summary) string {
		return over(func(r Run) *float64 { return pick(r).Mean }) + ", " +
			over(func(r Run) *float64 { return pick(r).P50 }) + ", " +
			over(func(r Run) *float64 { return pick(r).P99 })
	}
	fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s, %s | %s | %s |\n", name,
		of(func(r Run) Summary { return r.Report.TTFT.less(r.Truth.TTFT) }),
		of(func(r Run) Summary { return r.Report.TTFT.less(r.Truth.Arrival) }),
		of(func(r Run) Summary { return r.Report.ITL.less(r.Truth.ITL) }),
		of(func(r Run) Summary { return r.Report.TPOT.less(r.Truth.TPOT) }),
		over(func(r Run) *float64 { return perMillion(r.Usage.LoadCPUSeconds, r.Truth.Tokens) }),
		over(func(r Run) *float64 { return perMillion(&r.Usage.CPUSeconds, r.Truth.Tokens) }),
		over(func(r Run) *float64 { mib := float64(r.Usage.PeakBytes) / (1 << 20); return &mib }),
		over(func(r Run) *float64 { return &r.Usage.Seconds }))
	connections(b, name, good)
}

// connections writes how much of the TTFT was spent on opening connections, for a tool that reports it separately. The
// TTFT of all other tools includes it.
func connections(b *strings.Builder, name string, good []Run) {
	opening := func(r Run) *float64 { return r.Report.Connect.Mean }
	beyond := func(truth func(Run) Summary) *float64 {
		return median(each(good, func(r Run) *float64 {
			return difference(difference(r.Report.TTFT.Mean, truth(r).Mean),
				opening(r))
		}))
	}
	handler, arrival := beyond(func(r Run) Summary { return r.Truth.TTFT }),
		beyond(func(r Run) Summary { return r.Truth.Arrival })
	if handler == nil || good[0].Load.Requests != good[0].Load.Streams {
		return // with several requests per connection, the means are of different requests
	}
	apart := number(median(each(good, opening)))
	fmt.Fprintf(b, "| %s, connection apart | mean %s beyond %s | mean %s beyond %s | | | | | |\n", name,
		number(handler), apart, number(arrival), apart)
}

// truths writes a line about what the server did in the runs.
func truths(b *strings.Builder, good []Run) {
	if len(good) == 0 {
		return
	}
	span := func(value func(Run) *float64) string {
		var known []float64
		for _, v := range each(good, value) {
			if v != nil {
				known = append(known, *v)
			}
		}
		if len(known) == 0 {
			return "n/a"
		}
		return fmt.Sprintf("%s to %s", number(&known[slices.Index(known, slices.Min(known))]),
			number(&known[slices.Index(known, slices.Max(known))]))
	}
	fmt.Fprintf(b, "\nThe server itself, over the runs: TTFT mean %s ms, p99 %s ms; TTFT since arrival mean %s ms, p99 %s ms; ITL mean %s ms, p99 %s ms.\n",
		span(func(r Run) *float64 { return r.Truth.TTFT.Mean }), span(func(r Run) *float64 { return r.Truth.TTFT.P99 }),
		span(func(r Run) *float64 { return r.Truth.Arrival.Mean }),
		span(func(r Run) *float64 { return r.Truth.Arrival.P99 }),
		span(func(r Run) *float64 { return r.Truth.ITL.Mean }), span(func(r Run) *float64 { return r.Truth.ITL.P99 }))
}

func each(runs []Run, value func(Run) *float64) []*float64 {
	values := make([]*float64, len(runs))
	for i, r := range runs {
		values[i] = value(r)
	}
	return values
}

// perMillion returns seconds per million tokens.
func perMillion(seconds *float64, tokens int) *float64 {
	if seconds == nil || tokens == 0 {
		return nil
	}
	v := *seconds * 1e6 / float64(tokens)
	return &v
}

// number formats three significant digits, and n/a for nil.
func number(v *float64) string {
	if v == nil {
		return "n/a"
	}
	switch size := max(*v, -*v); {
	case size >= 99.95:
		return fmt.Sprintf("%.0f", *v)
	case size >= 9.995:
		return fmt.Sprintf("%.1f", *v)
	case size >= 0.9995:
		return fmt.Sprintf("%.2f", *v)
	default:
		return fmt.Sprintf("%.3f", *v)
	}
}

// cell makes a text fit into a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", "/")
}

// Results is everything that was measured, the content of peers.json.
type Results struct {
	Machine  Machine           `json:"machine"`
	Started  time.Time         `json:"started"`
	Rounds   int               `json:"rounds"`
	Timeout  time.Duration     `json:"timeout_ns"`
	Versions map[string]string `json:"versions"`
	Runs     []Run             `json:"runs"`
}

// Machine is where the measurement ran.
type Machine struct {
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel"`
	Go     string `json:"go"`
}

func thisMachine() Machine {
	m := Machine{CPU: "unknown CPU", Kernel: "unknown kernel", Go: runtime.Version()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		m.Cores = strings.Count(string(text), "processor\t:") // this program may be limited to one of them
		if _, rest, ok := strings.Cut(string(text), "model name\t: "); ok {
			m.CPU, _, _ = strings.Cut(rest, "\n")
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = strings.TrimSpace(string(text))
	}
	return m
}

// write writes peers.json and peers.md into a folder, and prints the table.
func write(dir string, r *Results) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "peers.json"), append(text, '\n'),
		0o644); err != nil { //nolint:gosec // results are for everyone
		return err
	}
	table := r.Markdown()
	fmt.Print(table)
	return os.WriteFile(filepath.Join(dir, "peers.md"), []byte(table), 0o644) //nolint:gosec // as above
}
