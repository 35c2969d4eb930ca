package show

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/compare"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// lineOf returns a line whose last run is worse.
func lineOf() *spatev1.HistoryLine {
	change := 0.25
	return &spatev1.HistoryLine{Plan: "nightly", Target: "<b>x</b>", Workload: "w", Load: "concurrency 4", Metric: "ttft_ms.p99",
		Unit: "ms", Points: []*spatev1.HistoryPoint{
			{Run: "a", Time: &timestamppb.Timestamp{}, Version: "v1", Value: 100, Verdict: string(trust.Valid)},
			{Run: "b", Time: &timestamppb.Timestamp{Seconds: 86400 * 30}, Version: "v2", Labels: map[string]string{"image": "2", "gpu": "1"},
				Value: 125, Verdict: string(trust.Suspect), Against: "a", Change: &change, Outcome: string(compare.Worse)},
		}}
}

// Text and page have each run with its change and meaning; what others said is text.
func TestHistoryFormats(t *testing.T) {
	var text, page bytes.Buffer
	for format, w := range map[string]*bytes.Buffer{"text": &text, "html": &page} {
		if err := History(w, []*spatev1.HistoryLine{lineOf(), lineOf()}, format, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []string{
		"nightly: <b>x</b>, w, concurrency 4: TTFT p99\n", "BEGAN", "1970-01-31 00:00  b", "gpu=1 image=2", "125.00 ms",
		"+25.00 %", "worse, SUSPECT",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the text lacks %q:\n%s", want, text.String())
		}
	}
	for _, want := range []string{
		"&lt;b&gt;x&lt;/b&gt;", "<svg", "worse +25.00 %</text>", ">Spate v2, gpu=1, image=2</text>", `<td class="worse">`, "of 2 comparisons 2 worse: ", "1970-01-31", "b against a: WORSE, of 2 numbers 2 worse.", "v2", "a: 100.00 ms",
	} {
		if !strings.Contains(page.String(), want) {
			t.Errorf("the page lacks %q:\n%s", want, page.String())
		}
	}
	if strings.Contains(page.String(), "<b>x") {
		t.Error("the page has what others said as HTML")
	}
}

// The dates of an axis differ, however close the runs are.
func TestDatesDiffer(t *testing.T) {
	for _, span := range []time.Duration{13 * time.Second, 5 * time.Minute, 30 * 24 * time.Hour} {
		seen := map[string]bool{}
		for _, tick := range dates(time.Unix(0, 0), time.Unix(0, 0).Add(span)).Ticks {
			seen[tick.Label] = true
		}
		if len(seen) != 5 {
			t.Errorf("%v: %d dates: %v", span, len(seen), seen)
		}
	}
}
