package simulator

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var seriesValue = regexp.MustCompile(` [^ ]+$`)

// seriesOf returns the lines of a metrics page that belong to some families: their types, and their series without
// values.
func seriesOf(page string, families []string) []string {
	var lines []string
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		name := strings.TrimPrefix(line, "# TYPE ")
		name = name[:max(0, strings.IndexAny(name+" ", "{ "))]
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			name = strings.TrimSuffix(name, suffix)
		}
		if !slices.Contains(families, name) || strings.HasPrefix(line, "# HELP") {
			continue
		}
		if !strings.HasPrefix(line, "#") {
			line = seriesValue.ReplaceAllString(line, "")
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// testdata/vllm/metrics.txt has the names, labels and buckets of vLLM 0.32.
func TestMetricsMatchVLLM(t *testing.T) {
	data, err := os.ReadFile("testdata/vllm/metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(data)), "\n")
	var families []string
	for _, line := range want {
		if name, ok := strings.CutPrefix(line, "# TYPE "); ok {
			families = append(families, strings.Fields(name)[0])
		}
	}
	slices.Sort(want)
	c := fast()
	c.ModelName = "m"
	_, page := start(t, c).get("/metrics", "", "")
	if diff := cmp.Diff(want, seriesOf(page, families)); diff != "" || len(families) < 9 {
		t.Errorf("%d families; -vLLM +simulator: %s", len(families), diff)
	}
}

// valueOf returns the value of a series.
func valueOf(t *testing.T, page, name string) float64 {
	t.Helper()
	_, after, ok := strings.Cut(page, "\n"+name+" ")
	if !ok {
		t.Fatalf("no %s in %s", name, page)
	}
	text, _, _ := strings.Cut(after, "\n")
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The values of /metrics are the sums over the records.
func TestMetricsMatchRecords(t *testing.T) {
	c := exactSteps()
	c.ModelName = "m"
	c.Model.PrefillTokensPerSecond = 1000
	c.Model.Overhead = 3 * time.Millisecond
	p := start(t, c)
	for i := range 4 {
		p.get(completionsPath, "",
			fmt.Sprintf(`{"model":"m","prompt":"one two three four","max_tokens":%d,"stream":true}`, 1+i*4))
	}
	_, page := p.get("/metrics", "", "")
	p.stop()
	var first, request, perToken, inter float64
	gaps := 0
	for _, r := range p.Records() {
		first += r.FirstProduced.Sub(r.Received).Seconds()
		request += r.LastProduced.Sub(r.Received).Seconds()
		inter += r.LastProduced.Sub(r.FirstProduced).Seconds()
		gaps += r.OutputTokens - 1
		if r.OutputTokens > 1 {
			perToken += r.LastProduced.Sub(r.FirstProduced).Seconds() / float64(r.OutputTokens-1)
		}
	}
	for metric, want := range map[string]struct {
		sum   float64
		count int
	}{
		"time_to_first_token_seconds":           {first, 4},
		"inter_token_latency_seconds":           {inter, gaps},
		"request_time_per_output_token_seconds": {perToken, 4},
		"e2e_request_latency_seconds":           {request, 4},
		"request_queue_time_seconds":            {0, 4}, // a single request, queued after its overhead
		"request_prefill_time_seconds":          {4 * 0.004, 4},
		"request_decode_time_seconds":           {inter, 4},
	} {
		const labels = `{engine="0",model_name="m"}`
		sum, count := valueOf(t, page, "vllm:"+metric+"_sum"+labels), valueOf(t, page, "vllm:"+metric+"_count"+labels)
		if d := sum - want.sum; d > 1e-6 || d < -1e-6 || int(count) != want.count {
			t.Errorf("%s: sum %v of %v, want %v of %d", metric, sum, count, want.sum, want.count)
		}
		if all := valueOf(t, page, "vllm:"+metric+`_bucket{engine="0",le="+Inf",model_name="m"}`); all != count {
			t.Errorf("%s: %v in buckets, count %v", metric, all, count)
		}
	}
	if n := valueOf(t, page, `vllm:time_to_first_token_seconds_bucket{engine="0",le="0.005",model_name="m"}`); n != 0 {
		t.Errorf("%v first tokens within 5 ms: prefill and overhead take 7", n)
	}
}

func TestLatencyBuckets(t *testing.T) {
	l := newLatency([]float64{1, 2.5})
	for _, d := range []time.Duration{0, time.Second, time.Second + 1, 2500 * time.Millisecond, 3 * time.Second} {
		l.observe(d)
	}
	if diff := cmp.Diff([]uint64{2, 2, 1}, l.counts); diff != "" || l.sum != 7500*time.Millisecond+1 {
		t.Errorf("sum %v, %s", l.sum, diff)
	}
}
