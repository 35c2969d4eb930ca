package report

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/results"
)

// The reason why a stage ended early appears in a table only once, even if several notes contain it.
func TestAReasonStandsInATableOnce(t *testing.T) {
	const why = `target bad is hopeless: its first 20 requests all failed in the same way: 401 Unauthorized: {"error":"no key"}`
	stages := []results.StageResult{
		{Load: results.Load{Words: "concurrency 1"}, Missing: []string{
			"the stage ended early: agent a: " + why, "agent a failed: " + why, "agent b failed: connection refused",
			"agent a ended early: " + why,
		}, ErrorExamples: map[string]string{"http_401": `401 Unauthorized: {"error":"no key"}`}},
		{Load: results.Load{Words: "concurrency 2"},
			Missing: []string{"the stage never started: skipped: agent a: " + why}},
	}
	stages[0].Errors = map[string]uint64{"http_401": 20}
	notes, text := &once{}, ""
	for _, s := range stages {
		text += noteOf(s, notes) + notes.example(s) + "\n"
	}
	want := "PARTIAL: the stage ended early: agent a: " + why +
		"; agent a failed; agent b failed: connection refused; agent a ended early\n" +
		"PARTIAL: the stage never started: skipped (see concurrency 1)\n"
	if text != want {
		t.Errorf("got:\n%s\nwant:\n%s", text, want)
	}
	if n := strings.Count(text, "401"); n != 1 {
		t.Errorf("the reason stands there %d times", n)
	}
}
