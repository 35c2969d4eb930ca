package databases

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/servertest"
)

// influxPlan has stages of a few windows, prompts with common prefixes, and an SLO that some requests meet.
const influxPlan = `
name: written
seed: 5
slo: {e2e: 80ms}
targets:
  - name: server
    simulator: {endpoints: 2, decode_step: 2ms, decode_step_per_request: 1ms, cache_blocks: 1000}
workloads:
  - random: {isl: 60, osl_lengths: {uniform: {min: 2, max: 40}}, prefix: {length: 32, groups: 3}}
loads:
  - concurrency: [4]
    duration: 2500ms
  - rate: [80]
    duration: 1200ms
`

// A stage's numbers in InfluxDB are those of results.json, to the last digit.
func TestInfluxDBHasTheResults(t *testing.T) {
	t.Parallel()
	db := servertest.StartInflux(t, servertest.InfluxOptions{Token: "admin:secret"})
	r := programs.RunPlan(t, influxPlan, db.Flags()...)
	r.MustExit(0)
	stages := storedRows(t, db, "spate_stage")
	for _, stage := range r.Results().Stages {
		compareStored(t, stage, stages[fmt.Sprint(stage.Index)])
	}
	compareWindows(t, db, r.Results())
	compareTokens(t, db, r)
}

// compareTokens compares good requests and tokens of prefixes with the request rows: in the stages, and summed over the
// windows.
func compareTokens(t *testing.T, db *servertest.Influx, r programs.Running) {
	t.Helper()
	stages, rows := storedRows(t, db, "spate_stage"), r.Rows()
	windows := map[string]map[string]int64{}
	for _, series := range db.Query("SELECT good, shared_tokens, cached_tokens FROM spate_window WHERE scope = 'all' GROUP BY stage") {
		sums := map[string]int64{}
		for _, values := range series.Values {
			for i, column := range series.Columns[1:] {
				if values[i+1] != nil { // cached_tokens of a window in which nothing completed
					sums[column] += integer(t, values[i+1])
				}
			}
		}
		windows[series.Tags["stage"]] = sums
	}
	for _, stage := range r.Results().Stages {
		want := map[string]uint64{"good": stage.Goodput.Requests}
		for _, q := range rows[stage.Index] {
			want["shared_tokens"] += q.SharedTokens
			want["cached_tokens"] += *q.CachedTokens
		}
		programs.Near(t, "cached share", *stage.PrefixCache.CachedShare,
			float64(want["cached_tokens"])/float64(*stage.InputTokens), 1e-9)
		if want["good"] == 0 || want["good"] == stage.Requests.Completed || want["shared_tokens"] == 0 ||
			want["cached_tokens"] == 0 {
			t.Errorf("stage %d: %v says nothing", stage.Index, want)
		}
		for field, value := range want {
			name := fmt.Sprint(stage.Index)
			if got := windows[name][field]; !same(stages[name][field], value) || got != int64(value) {
				t.Errorf("stage %d: InfluxDB has %s %v, its windows %d; the run has %d", stage.Index, field,
					stages[name][field], got, value)
			}
		}
	}
}

// A missing InfluxDB changes no result, and the output says how to write the points later.
func TestResultsNeedNoInfluxDB(t *testing.T) {
	t.Parallel()
	r := programs.RunPlan(t, influxPlan, "--sink", "influx+"+programs.ClosedPort(t)+"?bucket=spate")
	r.MustExit(0)
	mustBeWhole(t, r.Results())
	if _, err := os.Stat(filepath.Join(r.Dir, "influx.incomplete")); err != nil {
		t.Errorf("the run directory does not note that InfluxDB lacks points: %v", err)
	}
	for _, words := range []string{"the database does not take points now", "not all points were written",
		"`spate runs export " + r.Dir + "` writes them"} {
		if !strings.Contains(r.Stderr.String(), words) {
			t.Errorf("nothing says %q", words)
		}
	}
}

// An InfluxDB that dies midway changes no result, and has every window after it is back.
func TestInfluxDBKilledMidwayGetsAllWindows(t *testing.T) {
	t.Parallel()
	db := servertest.StartInflux(t, servertest.InfluxOptions{})
	r := programs.RunPlan(t, influxPlan, db.Flags()...)
	process.Eventually(t, "a window is written",
		func() bool { return len(db.Query("SELECT completed FROM spate_window")) > 0 })
	db.Kill()
	r.Await("the database cannot be written to")
	process.Eventually(t, "the results are there without InfluxDB", func() bool {
		_, err := os.Stat(filepath.Join(r.Dir, "requests.jsonl"))
		return err == nil
	})
	db.Restart()
	r.MustExit(0)
	mustBeWhole(t, r.Results())
	stages := storedRows(t, db, "spate_stage")
	for _, stage := range r.Results().Stages {
		compareStored(t, stage, stages[fmt.Sprint(stage.Index)])
	}
	compareWindows(t, db, r.Results())
}

// mustBeWhole fails the test unless nothing is missing.
func mustBeWhole(t *testing.T, r results.Result) {
	t.Helper()
	if !r.Run.Complete || len(r.Run.Missing) != 0 || len(r.Stages) != 2 {
		t.Errorf("run %+v, %d stages", r.Run, len(r.Stages))
	}
}

// stored is a row in InfluxDB.
type stored map[string]any

// storedRows returns the last row of each stage for the whole stage in a measurement.
func storedRows(t *testing.T, db *servertest.Influx, measurement string) map[string]stored {
	t.Helper()
	rows := map[string]stored{}
	for _, series := range db.Query("SELECT * FROM " + measurement + " WHERE scope = 'all' GROUP BY stage") {
		for _, values := range series.Values {
			row := stored{}
			for i, column := range series.Columns {
				row[column] = values[i]
			}
			rows[series.Tags["stage"]] = row
		}
	}
	return rows
}

// compareStored compares a stage's row with results.json.
func compareStored(t *testing.T, stage results.StageResult, row stored) {
	t.Helper()
	want := map[string]any{
		"complete": stage.Complete, "started": stage.Requests.Started, "completed": stage.Requests.Completed,
		"failed":    stage.Requests.Failed,
		"cancelled": stage.Requests.Cancelled, "never_sent": *stage.Requests.NeverSent,
		"input_tokens":  *stage.InputTokens,
		"output_tokens": *stage.OutputTokens, "duration_s": *stage.DurationS,
		"request_throughput":      *stage.RequestThroughput,
		"output_token_throughput": *stage.OutputTokenThroughput, "total_token_throughput": *stage.TotalTokenThroughput,
	}
	for name, d := range map[string]*histogram.Summary{
		"ttft_ms": stage.TTFT, "tpot_ms": stage.TPOT, "itl_ms": stage.ITL, "e2e_ms": stage.E2E,
		"send_delay_ms": stage.SendDelay,
	} {
		want[name+"_count"], want[name+"_mean"], want[name+"_std"], want[name+"_min"] = d.Count, d.Mean, d.Std, d.Min
		want[name+"_p50"], want[name+"_p90"], want[name+"_p99"], want[name+"_max"] = d.P50, d.P90, d.P99, d.Max
	}
	for field, value := range want {
		if !same(row[field], value) {
			t.Errorf("stage %d: InfluxDB has %s %v, results.json %v", stage.Index, field, row[field], value)
		}
	}
}

// same reports whether InfluxDB has the value, to the last digit.
func same(stored, value any) bool {
	number, isNumber := stored.(json.Number)
	if !isNumber {
		return stored == value
	}
	switch value := value.(type) {
	case uint64:
		return number.String() == fmt.Sprint(value)
	case float64:
		parsed, err := number.Float64()
		return err == nil && parsed == value
	default:
		return false
	}
}

// compareWindows checks that each stage has all of its windows: they are numbered without a gap, and add up to the
// result.
func compareWindows(t *testing.T, db *servertest.Influx, result results.Result) {
	t.Helper()
	sums, seen := map[string]int64{}, map[string][]int64{}
	for _, series := range db.Query("SELECT completed FROM spate_window WHERE scope = 'all' GROUP BY stage") {
		stage := series.Tags["stage"]
		for _, values := range series.Values {
			at, completed := integer(t, values[0]), integer(t, values[1])
			sums[stage], seen[stage] = sums[stage]+completed, append(seen[stage], at)
		}
	}
	for _, stage := range result.Stages {
		name := fmt.Sprint(stage.Index)
		if sums[name] != int64(stage.Requests.Completed) {
			t.Errorf("stage %s: windows with %d completed requests, results.json has %d", name, sums[name],
				stage.Requests.Completed)
		}
		for i, at := range seen[name] {
			if at != seen[name][0]+int64(i)*1e9 {
				t.Errorf("stage %s: windows at %v are not a second apart", name, seen[name])
				break
			}
		}
		if least := int(*stage.DurationS); len(seen[name]) < least {
			t.Errorf("stage %s of %v s: %d windows", name, *stage.DurationS, len(seen[name]))
		}
	}
}

func integer(t *testing.T, value any) int64 {
	t.Helper()
	number, ok := value.(json.Number)
	if !ok {
		t.Fatalf("%v is not a number", value)
	}
	n, err := number.Int64()
	if err != nil {
		t.Fatal(err)
	}
	return n
}
