package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/report/requests"
)

// e2eOf returns a row's E2E in milliseconds.
func e2eOf(r requestRow) float64 { return float64(*r.LastTokenNs-r.StartNs) / 1e6 }

// completedRows returns the rows of a stage that count, the slowest first.
func completedRows(rows []requestRow, stage uint32) []requestRow {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r requestRow) bool {
		return r.Stage != stage || r.Unmeasured || r.ErrorClass != nil
	})
	slices.SortFunc(rows, func(a, b requestRow) int {
		return cmp.Or(cmp.Compare(e2eOf(b), e2eOf(a)), cmp.Compare(a.Index, b.Index))
	})
	return rows
}

// The examples of results.json and the waterfalls of the page are those of the rows, to the digit: of p50 and p99 the
// nearest rows, and the five slowest.
func TestExamplesAreTheRowsToTheDigit(t *testing.T) {
	files := written(t, runDir(t, requests.JSONL, inOrder))
	var result results.Result
	if err := json.Unmarshal([]byte(files["results.json"]), &result); err != nil {
		t.Fatal(err)
	}
	page := html.UnescapeString(files["report.html"])
	for _, s := range result.Stages {
		rows := completedRows(jsonRows(t, files["requests.jsonl"]), s.Index)
		nearest := func(ms float64) requestRow {
			return slices.MinFunc(rows, func(a, b requestRow) int {
				return cmp.Or(cmp.Compare(math.Abs(e2eOf(a)-ms), math.Abs(e2eOf(b)-ms)), cmp.Compare(a.Index, b.Index))
			})
		}
		want := slices.Concat([]requestRow{nearest(s.E2E.P50), nearest(s.E2E.P99)}, rows[:5])
		if len(s.Examples) != len(want) {
			t.Fatalf("stage %d: %d examples", s.Index, len(s.Examples))
		}
		for i, x := range s.Examples {
			r, of := want[i], []string{"p50", "p99", "slowest"}[min(i, 2)]
			since := func(ns *int64) float64 { return float64(*ns-r.StartNs) / 1e6 }
			gap, at := float64(r.ITLNs[0])/1e6, since(r.FirstTokenNs)
			if x.Of != of || x.Index != r.Index || x.Agent != r.Agent || *x.TraceID != *r.TraceID ||
				x.E2EMs != e2eOf(r) || *x.TTFTMs != at || *x.SentMs != since(r.SentNs) ||
				*x.FirstByteMs != since(r.FirstByteNs) ||
				x.SendDelayMs != float64(r.StartNs-r.ScheduledNs)/1e6 || x.ConnectMs != nil || x.ServerQueueMs != nil ||
				len(x.Gaps) != 3 || x.Gaps[0] != (results.Gap{AtMs: at, GapMs: gap}) {
				t.Errorf("stage %d: %+v is not %+v", s.Index, x, r)
			}
			words := fmt.Sprintf("E2E %.2f ms\nheld back 0.00 ms\nsend delay %.2f ms\nconnect 0.00 ms\nsending %.2f ms\n"+
				"to the first byte %.2f ms\nto the first token %.2f ms\nto the last token %.2f ms\nlongest gaps in ms: %.2f, ",
				e2eOf(r), x.SendDelayMs, since(r.SentNs), since(r.FirstByteNs)-since(r.SentNs), at-since(r.FirstByteNs),
				e2eOf(r)-at, gap)
			if i < 3 && !strings.Contains(page, fmt.Sprintf("%s: request %d of %s at ", of, r.Index, r.Agent)) ||
				i < 3 && !strings.Contains(page, words) {
				t.Errorf("stage %d: the page does not say %q", s.Index, words)
			}
			if !strings.Contains(files["report.md"], *r.TraceID) {
				t.Errorf("report.md has no trace %s", *r.TraceID)
			}
		}
	}
}

// Without rows, the report says how to keep them.
func TestRunsWithoutRowsSayHowToKeepThem(t *testing.T) {
	files := written(t, runDir(t, "", inOrder))
	for _, name := range []string{"report.md", "report.html"} {
		if !strings.Contains(files[name], "run it with --records parquet") || strings.Contains(files[name], `href="#slow-`) {
			t.Errorf("%s says nothing about rows", name)
		}
	}
}
