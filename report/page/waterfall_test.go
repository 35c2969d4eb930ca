package page

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
)

// A load leads to its requests, whose parts follow each other from when a request was due; what a row does not have is
// not drawn. Links of traces cannot leave their place.
func TestWaterfalls(t *testing.T) {
	s := stage(2, "t", 8, trust.Valid)
	for _, of := range []string{"p50", "p99", "slowest"} {
		s.Examples = append(s.Examples, results.Example{Of: of, Index: 7, Agent: "a", Endpoint: "http://e", E2EMs: 20,
			TraceID: new("abc"), HeldMs: new(2.0), SendDelayMs: 1, ServerQueueMs: new(3.5), Gaps: []results.Gap{{AtMs: 15, GapMs: 5}}})
	}
	in := input(trust.Valid, s)
	in.Result.Run.Records = new("parquet")
	in.Result.Run.Targets = []results.RunTarget{{Name: "t", TraceURL: new(`https://h/{trace_id}"><script>`)}}
	page := written(t, in)
	for _, want := range []string{`<a href="#slow-3">8</a>`, `<div id="slow-3"`, `data-slow="slow-3"`,
		`href="https://h/abc%22%3e%3cscript%3e"`, "p50: request 7 of a at http://e, E2E 20.00 ms\nheld back 2.00 ms\n" +
			"send delay 1.00 ms\nconnect 0.00 ms\nsending n/a\nto the first byte n/a\n" +
			"to the first token n/a\nto the last token 20.00 ms\nlongest gaps in ms: 5.00\nserver&#39;s queue in ms: 3.50"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	bar, to := barOf(&s.Examples[0], 2.5)
	end := 0.0
	for _, c := range bar.Cells[:3] {
		if c.X0 != end {
			t.Errorf("%+v begins at %v, not at %v", c, c.X0, end)
		}
		end = c.X1
	}
	if gap := bar.Cells[3]; len(bar.Cells) != 4 || end != 23 || to != end || gap.X0 != 18 || gap.X1 != 23 {
		t.Errorf("%+v", bar.Cells)
	}
}
