package e2e

import (
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/process"
)

const recordsPlan = `
name: records
seed: 11
targets:
  - name: chat
    simulator: {endpoints: 2, prefill_tokens_per_second: 20000, decode_step: 2ms}
  - name: completions
    api: completions
    simulator: {decode_step: 2ms}
workloads:
  - random: {isl: 60, osl: 9}
loads:
  - concurrency: [6]
    requests: 300
    warmup: {requests: 20}
  - rate: [150]
    duration: 1500ms
  - rate: [400]
    requests: 200
    max_in_flight: 5
`

// The numbers in the run directory are those of its request rows, computed here again without Spate's code, and all of
// them come from the ledger.
func TestResultsAreThoseOfTheRequests(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, recordsPlan, "--agents", "3")
	r.MustExit(0)
	result, rows := r.Results(), r.Rows()
	blocks := strings.Split(strings.TrimSpace(r.Text("vllm.txt")), "\n\n")
	if len(result.Stages) != 6 || len(blocks) != 6 {
		t.Fatalf("%d stages, %d blocks in vllm.txt", len(result.Stages), len(blocks))
	}
	for i, stage := range result.Stages {
		t.Run(fmt.Sprintf("stage %d", i), func(t *testing.T) {
			measured := slices.DeleteFunc(slices.Clone(rows[stage.Index]),
				func(r programs.Row) bool { return r.Unmeasured })
			v := valuesOf(measured)
			compareCounts(t, stage, rows[stage.Index], measured)
			compareDistributions(t, stage, v)
			compareIdentity(t, stage, measured)
			compareVLLM(t, blocks[i], stage, measured, v)
		})
	}
	t.Run("spate report", func(t *testing.T) { compareReport(t, r) })
}

// values holds the values of each metric in a stage's rows, in nanoseconds.
type values struct {
	ttft, tpot, itl, e2e, ttftScheduled, e2eScheduled, sendDelay, held, connect, tcp []int64
	vllmTTFT, vllmTPOT, vllmITL, vllmE2EL                                            []int64
}

func valuesOf(rows []programs.Row) values {
	var v values
	for _, r := range rows {
		if !r.Completed() {
			continue
		}
		first, last, from, to := *r.FirstTokenNs, *r.LastTokenNs, *r.FirstChunkNs, *r.LastChunkNs
		v.ttft = append(v.ttft, first-r.StartNs)
		v.e2e = append(v.e2e, last-r.StartNs)
		v.ttftScheduled = append(v.ttftScheduled, first-r.ScheduledNs)
		v.e2eScheduled = append(v.e2eScheduled, last-r.ScheduledNs)
		v.vllmTTFT, v.vllmE2EL = append(v.vllmTTFT, from-r.StartNs), append(v.vllmE2EL, to-r.StartNs)
		v.itl = append(v.itl, r.ITLNs...)
		v.vllmITL = append(v.vllmITL, r.ITLNs...)
		if r.Chunks > r.TokenFrames { // the role frame
			v.vllmITL = append(v.vllmITL, first-from)
		}
		if n := int64(*r.OutputTokens) - 1; n > 0 {
			v.tpot = append(v.tpot, divide(last-first, n))
			v.vllmTPOT = append(v.vllmTPOT, divide(to-from, n))
		}
	}
	for _, r := range rows {
		due := r.ScheduledNs
		if r.HeldNs != nil {
			v.held = append(v.held, *r.HeldNs)
			due += *r.HeldNs
		}
		v.sendDelay = append(v.sendDelay, r.StartNs-due)
		if r.ConnectNs != nil {
			v.connect = append(v.connect, *r.ConnectNs)
			v.tcp = append(v.tcp, *r.TCPNs)
		}
	}
	return v
}

// numpyQuantile returns a quantile of sorted values, interpolated linearly.
func numpyQuantile(sorted []int64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low, high := sorted[int(math.Floor(at))], sorted[int(math.Ceil(at))]
	return float64(low) + float64(high-low)*(at-math.Floor(at))
}

// divide divides and rounds to the nearest.
func divide(a, b int64) int64 { return int64(math.Round(float64(a) / float64(b))) }

func compareCounts(t *testing.T, s results.StageResult, all, measured []programs.Row) {
	var completed, output, input, frames, connections uint64
	begin, end := int64(math.MaxInt64), int64(0)
	for _, r := range measured {
		begin, end = min(begin, r.StartNs), max(end, r.EndNs)
		if r.ConnectNs != nil {
			connections++
		}
		if r.Completed() {
			completed++
			output += *r.OutputTokens
			input += *r.InputTokens
			frames += uint64(r.TokenFrames)
		}
	}
	if q := s.Requests; q.Started != uint64(len(measured)) || q.Completed != completed ||
		q.Completed+q.Failed+q.Cancelled != q.Started ||
		q.Unmeasured != uint64(len(all)-len(measured)) || *q.NeverSent != 0 ||
		(q.Planned != nil && *q.Planned != q.Started) {
		t.Errorf("requests %+v of %d rows, %d measured, %d completed", q, len(all), len(measured), completed)
	}
	if *s.OutputTokens != output || *s.InputTokens != input || s.Streams.TokenFrames != frames ||
		s.Streams.Connections != connections {
		t.Errorf("%d output and %d input tokens, streams %+v; rows have %d and %d, %d frames, %d connections",
			*s.OutputTokens, *s.InputTokens, s.Streams,
			output, input, frames, connections)
	}
	programs.Near(t, "duration_s", *s.DurationS, float64(end-begin)/1e9, 1e-9)
	programs.Near(t, "request_throughput", *s.RequestThroughput, float64(completed)/(*s.DurationS), 1e-9)
	programs.Near(t, "output_token_throughput", *s.OutputTokenThroughput, float64(output)/(*s.DurationS), 1e-9)
	programs.Near(t, "total_token_throughput", *s.TotalTokenThroughput, float64(input+output)/(*s.DurationS), 1e-9)
}

func compareDistributions(t *testing.T, s results.StageResult, v values) {
	for _, m := range []struct {
		name   string
		got    *histogram.Summary
		values []int64
	}{
		{"ttft_ms", s.TTFT, v.ttft}, {"tpot_ms", s.TPOT, v.tpot}, {"itl_ms", s.ITL, v.itl}, {"e2e_ms", s.E2E, v.e2e},
		{"ttft_scheduled_ms", s.TTFTScheduled, v.ttftScheduled}, {"e2e_scheduled_ms", s.E2EScheduled, v.e2eScheduled},
		{"send_delay_ms", s.SendDelay, v.sendDelay}, {"held_ms", s.Held, v.held},
		{"connect_ms", s.Connect, v.connect}, {"tcp_ms", s.TCP, v.tcp},
	} {
		if len(m.values) == 0 {
			if m.got != nil {
				t.Errorf("%s: %+v, and no row has a value", m.name, *m.got)
			}
			continue
		}
		if m.got == nil {
			t.Errorf("%s: null, and rows have %d values", m.name, len(m.values))
			continue
		}
		slices.Sort(m.values)
		compareDistribution(t, m.name, *m.got, m.values)
	}
}

func compareDistribution(t *testing.T, name string, got histogram.Summary, sorted []int64) {
	if got.Count != uint64(len(sorted)) {
		t.Errorf("%s: count %d, rows have %d", name, got.Count, len(sorted))
	}
	mean, std := meanAndStd(sorted)
	programs.Near(t, name+" mean", got.Mean, mean/1e6, 1e-9)
	programs.Near(t, name+" std", got.Std, std/1e6, 1e-9)
	programs.Near(t, name+" min", got.Min, float64(sorted[0])/1e6, 1e-12)
	programs.Near(t, name+" max", got.Max, float64(sorted[len(sorted)-1])/1e6, 1e-12)
	for _, p := range []struct {
		permille int
		got      float64
	}{{500, got.P50}, {900, got.P90}, {950, got.P95}, {990, got.P99}, {999, got.P99_9}} {
		exact := percentile(sorted, p.permille)
		if off := math.Abs(p.got*1e6 - float64(exact)); off > 0.001*float64(exact)+512 {
			t.Errorf("%s p%d: %v ms, the rows' own is %d ns", name, p.permille, p.got, exact)
		}
		programs.Near(t, fmt.Sprintf("%s p%d by HdrHistogram's definition", name, p.permille), p.got,
			hdrPercentile(sorted, p.permille), 1e-12)
	}
}

// percentile returns the nearest rank: the smallest value that at least the given share of values does not exceed.
func percentile(sorted []int64, permille int) int64 {
	return sorted[(len(sorted)*permille+999)/1000-1]
}

// hdrPercentile returns HdrHistogram's value of a percentile, in milliseconds: the largest value that it cannot
// distinguish from the percentile. Its unit is 512 ns for 2048 units, and then each power of two doubles the unit.
func hdrPercentile(sorted []int64, permille int) float64 {
	value := percentile(sorted, permille)
	shift := max(9, bits.Len64(uint64(value))-11)
	return float64(min((value>>shift+1)<<shift-1, sorted[len(sorted)-1])) / 1e6
}

func meanAndStd(values []int64) (mean, std float64) {
	for _, v := range values {
		mean += float64(v)
	}
	mean /= float64(len(values))
	for _, v := range values {
		std += (float64(v) - mean) * (float64(v) - mean)
	}
	return mean, math.Sqrt(std / float64(len(values)))
}

// compareIdentity checks that each request's times are consistent, and that the means satisfy E2E = TTFT + TPOT x
// (n-1), which holds if TTFT, TPOT and E2E cover the same requests.
func compareIdentity(t *testing.T, s results.StageResult, rows []programs.Row) {
	for _, r := range rows {
		var gaps int64
		for _, gap := range r.ITLNs {
			gaps += gap
		}
		n := int64(*r.OutputTokens)
		if gaps != *r.LastTokenNs-*r.FirstTokenNs || len(r.ITLNs) != r.TokenFrames-1 || n != int64(*s.OSL.Asked) {
			t.Errorf("request %d: gaps of %d ns in %d ns, %d gaps of %d frames, %d tokens", r.Index, gaps,
				*r.LastTokenNs-*r.FirstTokenNs,
				len(r.ITLNs), r.TokenFrames, n)
		}
		if !slices.IsSorted([]int64{r.StartNs, *r.FirstChunkNs, *r.FirstTokenNs, *r.LastTokenNs, r.EndNs}) ||
			r.StartNs < r.ScheduledNs {
			t.Errorf("request %d: times out of order: %+v", r.Index, r)
		}
	}
	n := float64(*s.OSL.Asked)
	if off := s.E2E.Mean - s.TTFT.Mean - s.TPOT.Mean*(n-1); math.Abs(off)*1e6 > (n-1)/2+1e-3 {
		t.Errorf("mean E2E %v, TTFT %v, TPOT %v of %v tokens: %v ns off", s.E2E.Mean, s.TTFT.Mean,
			s.TPOT.Mean, n, off*1e6)
	}
}

// compareVLLM checks each number of a block against vLLM's benchmark, which counts from the first chunk, with or
// without text, and interpolates percentiles.
func compareVLLM(t *testing.T, block string, s results.StageResult, rows []programs.Row, v values) {
	var output, input uint64
	for _, r := range rows {
		output, input = output+*r.OutputTokens, input+*r.InputTokens
	}
	two := func(x float64) string { return fmt.Sprintf("%.2f", x) }
	seconds := *s.DurationS
	want := map[string]string{
		"Successful requests": fmt.Sprint(len(rows)), "Benchmark duration (s)": two(seconds),
		"Total input tokens": fmt.Sprint(input), "Total generated tokens": fmt.Sprint(output),
		"Request throughput (req/s)":           two(float64(len(rows)) / seconds),
		"Output token throughput (tok/s)":      two(float64(output) / seconds),
		"Total token throughput (tok/s)":       two(float64(input+output) / seconds),
		"Failed requests":                      "0",
		"Peak output token throughput (tok/s)": two(*s.VLLM.PeakOutputTokenThroughput),
		"Peak concurrent requests":             fmt.Sprintf("%d.00", *s.VLLM.PeakConcurrentRequests),
	}
	if s.Load.Concurrency != nil {
		want["Maximum request concurrency"] = fmt.Sprint(*s.Load.Concurrency)
	}
	if s.Load.MaxInFlight != nil {
		want["Maximum request concurrency"] = fmt.Sprint(*s.Load.MaxInFlight)
	}
	if s.Load.Rate != nil {
		want["Request rate configured (RPS)"] = two(*s.Load.Rate)
	}
	quantiles := map[string]float64{}
	for name, values := range map[string][]int64{"TTFT": v.vllmTTFT, "TPOT": v.vllmTPOT, "ITL": v.vllmITL,
		"E2EL": v.vllmE2EL} {
		slices.Sort(values)
		mean, _ := meanAndStd(values)
		want["Mean "+name+" (ms)"] = two(mean / 1e6)
		quantiles["Median "+name+" (ms)"], quantiles["P99 "+name+" (ms)"] = numpyQuantile(values, 0.5),
			numpyQuantile(values, 0.99)
	}
	got := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^([A-Z].*):\s+(\S+)\s*$`).FindAllStringSubmatch(strings.SplitN(block,
		"\n", 2)[1], -1) {
		got[line[1]] = line[2]
	}
	if len(got) != len(want)+len(quantiles) {
		t.Errorf("%d numbers, want %d:\n%s", len(got), len(want)+len(quantiles), block)
	}
	for label, ns := range quantiles {
		value, err := strconv.ParseFloat(got[label], 64)
		if err != nil || math.Abs(value-ns/1e6) > 0.006+0.0011*ns/1e6 { // two decimals, three digits
			t.Errorf("vllm.txt: %s: %s, the rows give %v", label, got[label], ns/1e6)
		}
	}
	for label, value := range want {
		if got[label] != value {
			t.Errorf("vllm.txt: %s: %s, the rows give %s", label, got[label], value)
		}
	}
}

// compareReport checks that all files come from the ledger alone, and are byte-identical each time.
func compareReport(t *testing.T, r programs.Running) {
	before := map[string]string{}
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if entry.Name() == "ledger.db" {
			continue
		}
		before[entry.Name()] = r.Text(entry.Name())
		if err := os.Remove(filepath.Join(r.Dir, entry.Name())); err != nil {
			t.Fatal(err)
		}
	}
	if len(before) != 7 {
		t.Errorf("the run directory has %d files beside the ledger", len(before))
	}
	if code := process.Start(t, programs.Built.Spate, "report", r.Dir).Exit(); code != 0 {
		t.Fatalf("spate report exits with %d", code)
	}
	for name, text := range before {
		if r.Text(name) != text {
			t.Errorf("%s is not what it was", name)
		}
	}
}
