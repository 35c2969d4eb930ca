package databases

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/internal/process"
	"github.com/spate-load/spate/internal/servertest"
)

// lastOf returns the last point of each metric of a stage as a whole, by name.
func lastOf(points []servertest.CollectedPoint, stage uint32) map[string]servertest.CollectedPoint {
	last := map[string]servertest.CollectedPoint{}
	for _, p := range points {
		if p.Attributes["stage"] == fmt.Sprint(stage) && p.Attributes["scope"] == "all" {
			last[p.Name] = p
		}
	}
	return last
}

// A real collector of OpenTelemetry passes on the results of a run: counts, sums, and histograms whose buckets hold the
// percentiles of results.json. Values to date only grow. An export of the run sends the same results.
func TestCollectorHasTheResults(t *testing.T) {
	t.Parallel()
	collector := servertest.StartCollector(t)
	flags := []string{"--sink", "otlp+" + collector.URL}
	r := programs.RunPlan(t, influxPlan, slices.Concat(flags, []string{"--agents", "eu=1,us=1"})...)
	r.MustExit(0)
	if _, err := os.Stat(filepath.Join(r.Dir, "otlp.incomplete")); !os.IsNotExist(err) {
		t.Errorf("otlp.incomplete is there after the run: %v", err)
	}
	stages := r.Results().Stages
	arrived := func(runs int) func() bool {
		return func() bool {
			ends := 0
			for _, p := range collector.Points() {
				if p.Name == "spate.stage.complete" && p.Attributes["scope"] == "all" {
					ends++
				}
			}
			return ends == runs*len(stages)
		}
	}
	process.Eventually(t, "the collector has the last result", arrived(1))
	mustOnlyGrow(t, collector.Points())
	for _, stage := range stages {
		compareCollected(t, stage, lastOf(collector.Points(), stage.Index))
	}
	sent := len(collector.Points())
	process.Start(t, programs.Built.Spate, append([]string{"runs", "export", r.Dir}, flags...)...).MustExit(0)
	process.Eventually(t, "the collector has the exported results", arrived(2))
	for _, stage := range stages {
		compareCollected(t, stage, lastOf(collector.Points()[sent:], stage.Index))
	}
}

// A collector that takes connections and never answers changes no result. What it did not get is counted, and the
// output says how to send it later.
func TestResultsNeedNoCollector(t *testing.T) {
	t.Parallel()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body) // else the server does not notice that the client has disconnected
		<-q.Context().Done()
	}))
	t.Cleanup(hangs.Close)
	r := programs.RunPlan(t, influxPlan, "--agents", "1", "--sink", "otlp+"+hangs.URL)
	r.MustExit(0)
	mustBeWhole(t, r.Results())
	if _, err := os.Stat(filepath.Join(r.Dir, "otlp.incomplete")); err != nil {
		t.Errorf("the run directory does not note that the collector lacks points: %v", err)
	}
	for _, words := range []string{"the database does not take points now", " points were not sent",
		"`spate runs export " + r.Dir + "` writes them"} {
		if !strings.Contains(r.Stderr.String(), words) {
			t.Errorf("nothing says %q", words)
		}
	}
}

// mustOnlyGrow fails the test if a cumulative value of a series is less than the one before it.
func mustOnlyGrow(t *testing.T, points []servertest.CollectedPoint) {
	t.Helper()
	type state struct {
		value float64
		nano  uint64
	}
	last, seen := map[string]state{}, 0
	for _, p := range points {
		if !p.Cumulative {
			continue
		}
		value := p.Value + float64(p.Histogram.GetCount())
		key := fmt.Sprint(p.Name, p.Attributes)
		if before, ok := last[key]; ok && (value < before.value || p.Nano <= before.nano) {
			t.Errorf("%s: %v after %v", key, state{value, p.Nano}, before)
		} else if ok {
			seen++
		}
		if p.StartNano == 0 || p.StartNano >= p.Nano {
			t.Errorf("%s: from %d to %d", key, p.StartNano, p.Nano)
		}
		last[key] = state{value, p.Nano}
	}
	if seen < 100 {
		t.Errorf("%d values were sent more than once", seen)
	}
}

// compareCollected compares the last points of a stage with results.json.
func compareCollected(t *testing.T, stage results.StageResult, last map[string]servertest.CollectedPoint) {
	t.Helper()
	for name, want := range map[string]float64{
		"started": float64(stage.Requests.Started), "completed": float64(stage.Requests.Completed),
		"output_tokens": float64(*stage.OutputTokens), "good": float64(stage.Goodput.Requests),
		"output_token_throughput": *stage.OutputTokenThroughput, "complete": 1, "duration": *stage.DurationS,
	} {
		if got := last["spate.stage."+name]; got.Value != want {
			t.Errorf("stage %d: the collector has %s %v, results.json %v", stage.Index, name, got.Value, want)
		}
	}
	for name, d := range map[string]*histogram.Summary{
		"ttft": stage.TTFT, "tpot": stage.TPOT, "itl": stage.ITL, "e2e": stage.E2E, "send_delay": stage.SendDelay,
	} {
		p := last["spate.stage."+name]
		if p.Histogram == nil || p.Unit != "s" || p.Histogram.GetCount() != d.Count {
			t.Errorf("stage %d: %s is %v", stage.Index, name, p)
			continue
		}
		programs.Near(t, name+" sum", p.Histogram.GetSum(), d.Mean/1e3*float64(d.Count), 1e-12)
		programs.Near(t, name+" max", p.Histogram.GetMax(), d.Max/1e3, 1e-12)
		for q, want := range map[float64]float64{50: d.P50, 90: d.P90, 95: d.P95, 99: d.P99, 99.9: d.P99_9} {
			low, high := bucketAt(p.Histogram, q)
			if value := want / 1e3; value < low*(1-1e-12) || value > high*(1+1e-12) {
				t.Errorf("stage %d: p%v of %s is in (%v, %v], results.json has %v", stage.Index, q, name, low, high, value)
			}
		}
	}
}

// bucketAt returns the bounds of the bucket that holds a percentile.
func bucketAt(h *metrics.ExponentialHistogramDataPoint, percentile float64) (low, high float64) {
	rank, seen := uint64(math.Ceil(percentile*10*float64(h.GetCount())/1000-1e-9)), h.GetZeroCount()
	if rank <= seen {
		return 0, 0
	}
	base := math.Pow(2, math.Pow(2, -float64(h.GetScale())))
	for i, n := range h.GetPositive().GetBucketCounts() {
		if seen += n; seen >= rank {
			return math.Pow(base, float64(int(h.GetPositive().GetOffset())+i)),
				math.Pow(base, float64(int(h.GetPositive().GetOffset())+i+1))
		}
	}
	return math.NaN(), math.NaN()
}
