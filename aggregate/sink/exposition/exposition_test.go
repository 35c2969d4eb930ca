package exposition

import (
	"bytes"
	"math"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/sinktest"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
)

// buckets returns the counts of a native histogram by their upper bounds.
func buckets(h *dto.Histogram) map[float64]uint64 {
	all, at, count, delta := map[float64]uint64{}, int32(0), int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		at += span.GetOffset()
		for range span.GetLength() {
			count += h.GetPositiveDelta()[delta]
			if count > 0 {
				all[math.Exp2(math.Ldexp(float64(at), -int(h.GetSchema())))] = uint64(count)
			}
			at, delta = at+1, delta+1
		}
	}
	return all
}

// A native histogram holds the values of the buckets that it was made of.
func TestNative(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := histogram.New(histogram.Times)
		for _, v := range rapid.SliceOfN(rapid.Int64Range(0, 5e9), 1, 50).Draw(t, "values") {
			h.Record(v)
		}
		e := h.Exponential(measure.Nanoseconds)
		n := native(e, time.Unix(5, 0))
		want := map[float64]uint64{}
		for i, count := range e.Buckets {
			if count > 0 {
				want[math.Exp2(math.Ldexp(float64(int(e.First)+i+1), -histogram.Schema))] = count
			}
		}
		got := buckets(n)
		for bound, count := range want {
			if got[bound] != count {
				t.Fatalf("up to %v: %d values, want %d", bound, got[bound], count)
			}
		}
		if len(got) != len(want) || n.GetSampleCount() != e.Count || n.GetSampleSum() != e.Sum ||
			n.GetZeroCount() != e.Zero || len(n.GetBucket()) != 0 || n.GetCreatedTimestamp().GetSeconds() != 5 {
			t.Fatalf("%v of %+v", n, e)
		}
	})
}

// shown returns the page of rows in Prometheus' text format.
func shown(t *testing.T, rows []sink.Row) string {
	t.Helper()
	families, err := Gatherer(func() []sink.Row { return rows }).Gather()
	if err != nil {
		t.Fatal(err)
	}
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			t.Fatal(err)
		}
	}
	return page.String()
}

// Rows to date have counters and whole distributions, results what is neither. No percentile is shown, which somebody
// could average.
func TestPage(t *testing.T) {
	h := histogram.New(histogram.Times)
	h.Record(3e6)
	window, result := sinktest.Window(3), sinktest.Stage()
	window.ToDate.Distributions = []sink.Distribution{{Name: "ttft_ms", Summary: *h.Summary(1e6),
		Buckets: h.Exponential(measure.Nanoseconds)}}
	window.ToDate.Counters.Completed, window.ToDate.Errors = 17, map[string]uint64{"http_503": 4}
	window.Scope.Target = "odd \xff \"name\"\n"
	page := shown(t, append(result.Rows(), window.ToDateRow()))
	labels := `load="concurrency 8",plan="`
	for _, want := range []string{
		"# HELP spate_to_date_completed_total Measured requests that completed.\n",
		"# TYPE spate_to_date_completed_total counter\nspate_to_date_completed_total{", "} 17\n",
		`spate_to_date_errors_total{class="http_503",`, labels, "} 4\n", `target="odd ` + "\uFFFD" + ` \"name\"\n",`,
		"# TYPE spate_to_date_ttft_seconds histogram\n", "spate_to_date_ttft_seconds_sum{", "} 0.003\n",
		"# TYPE spate_stage_complete gauge\n", "spate_stage_duration_seconds{",
	} {
		if !bytes.Contains([]byte(page), []byte(want)) {
			t.Errorf("no %q", want)
		}
	}
	for _, unwanted := range []string{"quantile", "_p99", "_mean", "spate_stage_completed", "failure"} {
		if bytes.Contains([]byte(page), []byte(unwanted)) {
			t.Errorf("%q is there", unwanted)
		}
	}
	if t.Failed() {
		t.Log(page)
	}
}
