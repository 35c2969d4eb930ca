package scrape

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// engine is a server with one histogram and one counter for each of two models, in vLLM's format.
type engine struct {
	started float64
	bounds  []float64
	values  map[string][]float64 // by label
}

func (e *engine) page() []byte {
	var b strings.Builder
	if e.started > 0 {
		fmt.Fprintf(&b, "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds %v\n", e.started)
	}
	b.WriteString("# TYPE h histogram\n")
	for _, label := range []string{"a", "b"} {
		sum := 0.0
		for _, v := range e.values[label] {
			sum += v
		}
		for _, bound := range append(slices.Clone(e.bounds), math.Inf(1)) {
			below := 0
			for _, v := range e.values[label] {
				if v <= bound {
					below++
				}
			}
			fmt.Fprintf(&b, "h_bucket{engine=%q,le=\"%v\"} %d\n", label, fmt.Sprint(bound), below)
		}
		fmt.Fprintf(&b, "h_sum{engine=%q} %v\nh_count{engine=%q} %d\n", label, sum, label, len(e.values[label]))
	}
	b.WriteString("# TYPE c_total counter\n")
	for _, label := range []string{"a", "b"} {
		fmt.Fprintf(&b, "c_total{engine=%q} %d\n", label, len(e.values[label]))
	}
	return []byte(b.String())
}

// A histogram's growth is what was observed in between, bucket by bucket, over all labels. After a restart of the
// server it is everything since the restart.
func TestGrowthIsWhatWasObserved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.Float64Range(0, 4), 0, 20)
		e := &engine{started: rapid.SampledFrom([]float64{0, 100}).Draw(t, "started"), bounds: []float64{0.5, 1, 2.5},
			values: map[string][]float64{}}
		for _, label := range []string{"a", "b"} {
			e.values[label] = values.Draw(t, "before "+label)
		}
		order := newNames([]string{"h", "c_*"})
		first, err := readTotals(e.page(), order, "")
		if err != nil {
			t.Fatal(err)
		}
		again := e.started > 0 && rapid.Bool().Draw(t, "started again")
		if again {
			e.started++
			clear(e.values)
		}
		var seen []float64
		counters := map[string]float64{}
		for _, label := range []string{"a", "b"} {
			more := values.Draw(t, "between "+label)
			e.values[label] = append(e.values[label], more...)
			seen = append(seen, more...)
			counters[fmt.Sprintf("engine=%q", label)] = float64(len(more))
		}
		last, err := readTotals(e.page(), order, "")
		if err != nil {
			t.Fatal(err)
		}
		a := growth(first, last, order)
		if a.GetRestarted() != again {
			t.Fatalf("started again: %v", a.GetRestarted())
		}
		sum, counts := 0.0, make([]uint64, len(e.bounds)+1)
		for _, v := range seen {
			sum += v
			i, _ := slices.BinarySearch(e.bounds, v)
			counts[i]++
		}
		h := a.GetHistograms()[0]
		if h.GetName() != "h" || h.GetCount() != uint64(len(seen)) || math.Abs(h.GetSum()-sum) > 1e-9 {
			t.Fatalf("%v, want %d values of %v", h, len(seen), sum)
		}
		if len(seen) > 0 && (!slices.Equal(h.GetBounds(), e.bounds) || !slices.Equal(h.GetCounts(), counts)) {
			t.Fatalf("%v, want %v", h, counts)
		}
		for _, c := range a.GetCounters() {
			if c.GetName() != "c_total" || c.GetIncrease() != counters[c.GetLabels()] {
				t.Fatalf("%v, want %v", c, counters)
			}
		}
	})
}

func TestTotals(t *testing.T) {
	order := newNames([]string{"h", "c", "d_total"})
	h := func(labels, buckets string) string {
		return "# TYPE h histogram\n" + buckets + "h_sum" + labels + " 4\nh_count" + labels + " 3\n"
	}
	for name, c := range map[string]struct {
		page string
		want string
	}{
		"buckets in any order": {h("", "h_bucket{le=\"2\"} 2\nh_bucket{le=\"+Inf\"} 3\nh_bucket{le=\"1\"} 1\n"),
			"h 3 4 [1 2] [1 1 1]"},
		"no buckets":                 {h("", ""), "h 3 4 [] []"},
		"none up to infinity":        {h("", "h_bucket{le=\"1\"} 1\n"), "h 3 4 [1] [1 2]"},
		"buckets that lose values":   {h("", "h_bucket{le=\"1\"} 2\nh_bucket{le=\"2\"} 1\n"), "h 3 4 [] []"},
		"buckets beyond the count":   {h("", "h_bucket{le=\"1\"} 4\n"), "h 3 4 [] []"},
		"a sum that is not a number": {"# TYPE h histogram\nh_sum NaN\nh_count 3\n", "left out 1"},
		"counters by their type":     {"# TYPE c counter\nc 3\n# TYPE d counter\nd 4\n", "c 3, d 4"},
		"gauges are none":            {"# TYPE c gauge\nc 3\n", ""},
		"the target's model": {"# TYPE c counter\nc{model_name=\"M/x\"} 3\nc{model_name=\"other\"} 4\n",
			`c{model_name="M/x"} 3`},
		"the model in small": {"# TYPE c counter\nc{model=\"m/x\"} 3\nc{model=\"other\"} 4\n",
			`c{model="m/x"} 3`},
		"models of unknown names": {"# TYPE c counter\nc{model=\"y\"} 3\nc{model=\"z\"} 4\n",
			`c{model="y"} 3, c{model="z"} 4`},
		"a summary's sum and count": {"# TYPE c summary\nc_sum 7\nc_count 2\n", "c_count 2, c_sum 7"},
	} {
		got, err := readTotals([]byte(c.page), order, "M/x")
		if err != nil || describe(got) != c.want {
			t.Errorf("%s: %v, %s, want %s", name, err, describe(got), c.want)
		}
	}
}

// describe formats totals in one line.
func describe(t totals) string {
	var words []string
	name := func(k series) string {
		if k.labels == "" {
			return k.name
		}
		return k.name + "{" + k.labels + "}"
	}
	for k, h := range t.histograms {
		words = append(words, fmt.Sprintf("%s %d %v %v %v", name(k), h.count, h.sum, h.bounds, h.counts))
	}
	for k, v := range t.counters {
		words = append(words, fmt.Sprintf("%s %v", name(k), v))
	}
	slices.Sort(words)
	if t.leftOut > 0 {
		words = append(words, fmt.Sprintf("left out %d", t.leftOut))
	}
	return strings.Join(words, ", ")
}

// Buckets that differ between labels, or changed in between, are not guessed.
func TestBucketsThatDoNotAddUp(t *testing.T) {
	page := func(bound string) []byte {
		return []byte("# TYPE h histogram\nh_bucket{e=\"a\",le=\"1\"} 1\nh_sum{e=\"a\"} 2\nh_count{e=\"a\"} 2\n" +
			"h_bucket{e=\"b\",le=\"" + bound + "\"} 1\nh_sum{e=\"b\"} 3\nh_count{e=\"b\"} 2\n")
	}
	order := newNames([]string{"h"})
	for bound, known := range map[string]bool{"1": true, "2": false} {
		last, err := readTotals(page(bound), order, "")
		if err != nil {
			t.Fatal(err)
		}
		h := growth(totals{}, last, order).GetHistograms()[0]
		if h.GetCount() != 4 || h.GetSum() != 5 || (h.GetBounds() != nil) != known {
			t.Errorf("bounds 1 and %s: %v", bound, h)
		}
	}
}

// An account stays within the coordinator's limits, keeps the most important series, and says how many were left out.
func TestAccountsAreLimited(t *testing.T) {
	var b strings.Builder
	for i := range servermetrics.MaxCounters + 2 {
		fmt.Fprintf(&b, "# TYPE c%03d counter\nc%03d 1\n", i, i)
	}
	for i := range servermetrics.MaxHistograms + 3 {
		fmt.Fprintf(&b, "# TYPE h%03d histogram\nh%03d_sum 1\nh%03d_count 1\n", i, i, i)
	}
	order := newNames([]string{"c129", "h034", "*"})
	last, err := readTotals([]byte(b.String()), order, "")
	if err != nil {
		t.Fatal(err)
	}
	a := growth(totals{}, last, order)
	has := func(name string) bool {
		return slices.ContainsFunc(a.GetCounters(),
			func(c *spatev1.ServerCounter) bool { return c.GetName() == name }) ||
			slices.ContainsFunc(a.GetHistograms(), func(h *spatev1.ServerHistogram) bool { return h.GetName() == name })
	}
	if len(a.GetCounters()) != servermetrics.MaxCounters || len(a.GetHistograms()) != servermetrics.MaxHistograms ||
		a.GetLeftOut() != 5 || !has("c129") || !has("h034") {
		t.Errorf("%d counters, %d histograms, %d left out", len(a.GetCounters()), len(a.GetHistograms()),
			a.GetLeftOut())
	}
}

// The account names metrics that engines really have: each engine's page has some of them.
func TestAccountsOfEngines(t *testing.T) {
	order := newNames(servermetrics.Account(&spatev1.Target{}))
	for engine, want := range map[string][]string{
		"vllm-0.32": {
			"vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
			"vllm:request_time_per_output_token_seconds",
			"vllm:e2e_request_latency_seconds", "vllm:request_queue_time_seconds", "vllm:request_prefill_time_seconds",
			"vllm:request_decode_time_seconds", "vllm:request_inference_time_seconds",
		},
		"dynamo-1.6": {
			"dynamo_frontend_time_to_first_token_seconds", "dynamo_frontend_inter_token_latency_seconds",
			"dynamo_frontend_request_duration_seconds",
			"dynamo_frontend_cached_tokens", "dynamo_frontend_input_sequence_tokens",
		},
	} {
		page, err := os.ReadFile("testdata/" + engine + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		last, err := readTotals(page, order, "tiny")
		if err != nil {
			t.Fatal(err)
		}
		a := growth(totals{}, last, order)
		for _, name := range want {
			i := slices.IndexFunc(a.GetHistograms(),
				func(h *spatev1.ServerHistogram) bool { return h.GetName() == name })
			if i < 0 || a.GetHistograms()[i].GetCount() == 0 || a.GetHistograms()[i].GetBounds() == nil {
				t.Errorf("%s: %s is not in %v", engine, name, a.GetHistograms())
			}
		}
		for _, c := range a.GetCounters() {
			if strings.HasSuffix(c.GetName(), "_created") {
				t.Errorf("%s: %v", engine, c)
			}
		}
	}
}

// Whatever two pages contain, the coordinator accepts the account made of them.
func FuzzGrowth(f *testing.F) {
	for _, engine := range []string{"vllm", "sglang", "tgi", "trtllm"} {
		page, err := os.ReadFile("testdata/" + engine + ".txt")
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte{}, page)
		f.Add(page, page)
	}
	f.Add([]byte("# TYPE c counter\nc -1e300\n"), []byte("# TYPE c counter\nc 1e300\n"))
	f.Add([]byte("# TYPE h histogram\nh_sum -1e300\nh_count 1\n"),
		[]byte("# TYPE h histogram\nh_bucket{le=\"1\"} 5\nh_sum 1e300\nh_count 9007199254740993\n"))
	stage := &spatev1.StageRecord{
		Stage:  &spatev1.Stage{Target: &spatev1.Target{Endpoints: []string{"http://e"}}},
		Agents: []*spatev1.AssignedAgent{{Agent: &spatev1.AgentInfo{Name: "a"}, Incarnation: 1}},
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		order := newNames([]string{"*"})
		first, err1 := readTotals(before, order, "tiny")
		last, err2 := readTotals(after, order, "tiny")
		if err1 != nil || err2 != nil {
			return
		}
		snapshot := &spatev1.Snapshot{
			Key:            &spatev1.SnapshotKey{RunId: "r", Agent: "a", Incarnation: 1, Sequence: 1},
			ServerAccounts: []*spatev1.ServerAccount{growth(first, last, order)},
		}
		if _, err := proto.Marshal(snapshot); err != nil {
			t.Fatal(err)
		}
		if _, err := merge.Check(snapshot, &spatev1.RunRecord{RunId: "r"}, stage); err != nil {
			t.Fatal(err)
		}
	})
}
