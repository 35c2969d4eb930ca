package scrape

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/plans/servermetrics"
)

// Of too many series, those that the defaults name stay, then those that the plan names first.
func TestMostImportantSeriesAreKept(t *testing.T) {
	page := "vllm:num_requests_running 1\nz_first 1\n"
	for i := range servermetrics.MaxSeries {
		page += fmt.Sprintf("a_many{i=\"%d\"} 1\n", i)
	}
	samples, leftOut, err := parse([]byte(page), newNames([]string{"z_first", "*"}),
		newNames([]string{"vllm:num_requests_running", "z_first", "*"}))
	if err != nil || leftOut != 2 || len(samples) != servermetrics.MaxSeries {
		t.Fatalf("%v, %d left out of %d", err, leftOut, len(samples))
	}
	got := text(samples)
	for _, line := range []string{"vllm:num_requests_running{} 1 gauge\n", "z_first{} 1 gauge\n"} {
		if !strings.Contains(got, line) {
			t.Errorf("lacks %s", line)
		}
	}
}

// Filtering a page before it is parsed does not affect the result.
func TestFilterKeepsAllWanted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "b", "a_b", "c:d"})
		var page strings.Builder
		for i := range rapid.IntRange(1, 8).Draw(t, "families") {
			name := word.Draw(t, "name") + fmt.Sprint(i)
			kind := rapid.SampledFrom([]string{"counter", "gauge", "histogram", "summary", "untyped"}).Draw(t, "type")
			if rapid.Bool().Draw(t, "typed") {
				fmt.Fprintf(&page, "# HELP %s some words\n# TYPE %s %s\n", name, name, kind)
			}
			switch kind {
			case "histogram":
				fmt.Fprintf(&page, "%s_bucket{le=\"1\"} 2\n%s_bucket{le=\"+Inf\"} 3\n%s_sum 4\n%s_count 3\n", name,
					name, name, name)
			case "summary":
				fmt.Fprintf(&page, "%s{quantile=\"0.5\"} 2\n%s_sum 4\n%s_count 3\n", name, name, name)
			default:
				fmt.Fprintf(&page, "%s{l=\"x y{\"} %d 17\n%s_total 5\n", name, i, name)
			}
		}
		wanted := newNames(rapid.SliceOfN(rapid.SampledFrom([]string{"a*", "b1", "c:d2_sum", "a_b3_total", "b2_count",
			"c:d*"}), 1, 3).Draw(t, "wanted"))
		whole, err := familiesOf([]byte(page.String()))
		if err != nil {
			t.Skip("not a page")
		}
		cut, err := familiesOf(filter([]byte(page.String()), wanted, true))
		if err != nil {
			t.Fatalf("%v:\n%s", err, page.String())
		}
		for _, name := range slices.Sorted(maps.Keys(whole)) {
			whole[name].Help = nil
			for _, s := range samplesOf(whole[name]) {
				if !wanted.match(name) && !wanted.match(s.GetName()) {
					continue
				}
				if cut[name] == nil || cut[name].String() != whole[name].String() {
					t.Fatalf("%s is %v, of the whole page %v", name, cut[name], whole[name])
				}
			}
		}
	})
}
