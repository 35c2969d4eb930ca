package scrape

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// defaults returns the metrics that are read if a plan names none.
func defaults(t testing.TB) []string {
	t.Helper()
	plan, err := plans.Load("p.yaml",
		[]byte("name: p\ntargets: [{name: t, endpoints: [\"http://h\"], model: m, server_metrics: {}}]\n"+
			"workloads: [{random: {isl: 1, osl: 1}}]\nloads: [{rate: [1], duration: 1s}]\n"), plans.Options{})
	if err != nil {
		t.Fatal(err)
	}
	stages, err := plan.Stages(plans.Resources{})
	if err != nil {
		t.Fatal(err)
	}
	return stages[0].GetTarget().GetServerMetrics().GetNames()
}

// text formats samples as a page has them, with counters marked.
func text(samples []*spatev1.ServerSample) string {
	var b strings.Builder
	for _, s := range samples {
		kind := "gauge"
		if s.GetCounter() {
			kind = "counter"
		}
		fmt.Fprintf(&b, "%s{%s} %v %s\n", s.GetName(), s.GetLabels(), s.GetValue(), kind)
	}
	return b.String()
}

// From engines' pages the defaults take metrics of how busy the engines are, and no process or latency metrics.
func TestDefaultsOfEngines(t *testing.T) {
	wanted := defaults(t)
	for engine, want := range map[string][]string{
		"vllm": {
			`vllm:num_requests_running{engine="1",model_name="Qwen/Qwen3-8B"} 11 gauge`,
			`vllm:kv_cache_usage_perc{engine="0",model_name="Qwen/Qwen3-8B"} 0.4375 gauge`,
			`vllm:num_requests_waiting{engine="0",model_name="Qwen/Qwen3-8B"} 3 gauge`,
			`vllm:prefix_cache_hits_total{engine="0",model_name="Qwen/Qwen3-8B"} 16016 counter`,
			`vllm:num_preemptions_total{engine="0",model_name="Qwen/Qwen3-8B"} 2 counter`,
			`vllm:generation_tokens_total{engine="0",model_name="Qwen/Qwen3-8B"} 98304 counter`,
		},
		"sglang": {
			`sglang:num_running_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 162 gauge`,
			`sglang:num_queue_reqs{model_name="meta-llama/Llama-3.1-8B-Instruct"} 2826 gauge`,
			`sglang:cache_hit_rate{model_name="meta-llama/Llama-3.1-8B-Instruct"} 0.007507552643049313 gauge`,
			`sglang:gen_throughput{model_name="meta-llama/Llama-3.1-8B-Instruct"} 86.50814177726902 gauge`,
		},
		"tgi": {`tgi_batch_current_size{} 4 gauge`, `tgi_queue_size{} 7 gauge`,
			`tgi_request_generated_tokens_sum{} 8123 counter`, `tgi_request_count{} 412 counter`},
		"dynamo": {`dynamo_frontend_inflight_requests{model="qwen/qwen3-0.6b"} 3 gauge`,
			`dynamo_frontend_queued_requests{model="qwen/qwen3-0.6b"} 1 gauge`,
			`dynamo_component_total_blocks{dp_rank="0"} 2048 gauge`,
			`dynamo_component_gpu_cache_usage_percent{dp_rank="0"} 0.25 gauge`},
		"trtllm": {`trtllm_num_requests_running{engine_type="trtllm",model_name="m"} 5 gauge`,
			`trtllm_num_requests_waiting{engine_type="trtllm",model_name="m"} 2 gauge`,
			`trtllm_kv_cache_utilization{engine_type="trtllm",model_name="m"} 0.31 gauge`,
			`trtllm_generation_tokens_total{engine_type="trtllm",model_name="m"} 4096 counter`},
		"triton": {
			`nv_trt_llm_request_metrics{model="tensorrt_llm",request_type="active",version="1"} 7 gauge`,
			`nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction",model="tensorrt_llm",version="1"} 0.4875 gauge`,
		},
	} {
		page, err := os.ReadFile(filepath.Join("testdata", engine+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		samples, leftOut, err := parse(page, newNames(wanted), newNames(nil))
		if err != nil || leftOut != 0 {
			t.Errorf("%s: %v, %d left out", engine, err, leftOut)
		}
		got := text(samples)
		for _, line := range want {
			if !strings.Contains(got, line+"\n") {
				t.Errorf("%s lacks %s:\n%s", engine, line, got)
			}
		}
		for _, other := range []string{"python", "process", "time_to_first", "_bucket", "_created"} {
			if strings.Contains(got, other) {
				t.Errorf("%s has %s:\n%s", engine, other, got)
			}
		}
	}
}

func TestParse(t *testing.T) {
	many := "# TYPE m gauge\n"
	for i := range servermetrics.MaxSeries + 3 {
		many += fmt.Sprintf("m{i=\"%03d\"} 1\n", i)
	}
	for _, c := range []struct {
		name, page string
		wanted     []string
		want       string
		leftOut    int
	}{
		{"sorted by name and labels", "b{z=\"1\",a=\"2\"} 1\na 2\nb{a=\"1\"} 3\n", []string{"*"},
			"a{} 2 gauge\nb{a=\"1\"} 3 gauge\nb{a=\"2\",z=\"1\"} 1 gauge\n", 0},
		{"no numbers are not there", "a NaN\nb +Inf\nc 1\nd -Inf\ne 1e308\n", []string{"*"}, "c{} 1 gauge\n", 0},
		{"sums that are no numbers",
			"# TYPE s summary\ns_sum NaN\ns_count 0\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum +Inf\nh_count 2\n", []string{"*"}, "h_count{} 2 counter\ns_count{} 0 counter\n", 0},
		{"words of any language", "a{l=\"größe 模型 | a,b\"} 1\n", []string{"a"}, "a{l=\"größe 模型 | a,b\"} 1 gauge\n", 0},
		{"names in quotes", "{\"a.b\",\"l=\\\"m\"=\"x\"} 1\n", []string{"a*"}, "a.b{\"l=\\\"m\"=\"x\"} 1 gauge\n", 0},
		{"a summary is its sum and count", "# TYPE s summary\ns{quantile=\"0.5\"} 3\ns_sum 7\ns_count 2\n",
			[]string{"s"}, "s_count{} 2 counter\ns_sum{} 7 counter\n", 0},
		{"a sum or a count by its own name",
			"# TYPE s summary\ns_sum 7\ns_count 2\n# TYPE h histogram\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n",
			[]string{"s_sum", "h_count"}, "h_count{} 2 counter\ns_sum{} 7 counter\n", 0},
		{"a counter has no other names", "# TYPE up gauge\nup 1\n# TYPE a counter\na 1\n",
			[]string{"a_count", "up"}, "", 0},
		{"untyped totals count", "a_total 5\n", []string{"a*"}, "a_total{} 5 counter\n", 0},
		{"escapes", "a{l=\"x\\\\y\\\"z\\n\"} 1\n", []string{"a"}, "a{l=\"x\\\\y\\\"z\\n\"} 1 gauge\n", 0},
		{"hidden characters", "a{l=\"x\u202ey\x1b[1m\u2066\"} 1\n{\"b\u202e\"} 2\n", []string{"*"},
			`a{l="x\u202ey\u001b[1m\u2066"} 1 gauge` + "\n", 1},
		{"nothing else", "ab 1\nb 2\n", []string{"a"}, "", 0},
		{"its own words are its own", "up 0\nupper 1\n", []string{"up*"}, "upper{} 1 gauge\n", 0},
		{"too long labels", "a{l=\"" + strings.Repeat("x", servermetrics.MaxLabels) + "\"} 1\na 2\n", []string{"a"},
			"a{} 2 gauge\n", 1},
		{"too many", many, []string{"m"}, "", 3},
		{"when a series was created is not a measurement",
			"# TYPE a_total counter\na_total 2\n# TYPE a_created gauge\na_created 1.7e9\n",
			[]string{"a_*", "a_created"}, "a_total{} 2 counter\n", 0},
		{"a counter without _total", "# TYPE a counter\na 2\n# TYPE b gauge\nb 3\n", []string{"a_total", "b_total"},
			"a{} 2 counter\n", 0},
		{"types with blanks", "#  TYPE  a   counter\na 2\n", []string{"a"}, "a{} 2 counter\n", 0},
		{"no line's end at the end", "x 1\na 2", []string{"a"}, "a{} 2 gauge\n", 0},
	} {
		samples, leftOut, err := parse([]byte(c.page), newNames(c.wanted), newNames(nil))
		if err != nil || leftOut != c.leftOut || (c.want != "" || c.leftOut == 0) && text(samples) != c.want ||
			len(samples) > servermetrics.MaxSeries {
			t.Errorf("%s: %v, %d left out, %d series:\n%s", c.name, err, leftOut, len(samples), text(samples))
		}
	}
	for _, page := range []string{"<html>not here</html>", "#TYPE A \n{}"} {
		if _, _, err := parse([]byte(page), newNames([]string{"*"}), newNames(nil)); err == nil ||
			!strings.Contains(err.Error(), "Prometheus' text form") {
			t.Errorf("a page that is not one: %v", err)
		}
	}
}

// Whatever a server answers, the coordinator accepts the samples.
func FuzzParse(f *testing.F) {
	for _, engine := range []string{"vllm", "sglang", "tgi", "dynamo", "triton", "trtllm"} {
		page, err := os.ReadFile(filepath.Join("testdata", engine+".txt"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(page)
	}
	f.Add([]byte("a{b=\"c\"} 1 2\n# EOF\n"))
	f.Add([]byte("{\"a.b\",\"l=\\\"m\"=\"x\\n\"} +Inf\na{l=\"größe\"} NaN\n"))
	f.Fuzz(func(t *testing.T, page []byte) {
		samples, _, err := parse(page, newNames([]string{"*"}), newNames(nil))
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range samples {
			key := s.GetName() + "\x00" + s.GetLabels()
			if seen[key] || s.GetName() == "" || len(s.GetName()) > servermetrics.MaxName ||
				len(s.GetLabels()) > servermetrics.MaxLabels || !(math.Abs(s.GetValue()) <= servermetrics.MaxValue) {
				t.Fatalf("%v", s)
			}
			if _, err := proto.Marshal(s); err != nil { // fails on text that is not UTF-8
				t.Fatalf("%q: %v", key, err)
			}
			seen[key] = true
		}
		if len(samples) > servermetrics.MaxSeries {
			t.Fatalf("%d series", len(samples))
		}
	})
}
