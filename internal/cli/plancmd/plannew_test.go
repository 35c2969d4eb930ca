package plancmd

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/spate-load/spate/plans/draft"
	"github.com/spate-load/spate/workload/content"
)

// TestAllDrafts: each workload with each load that goes with it makes a valid plan.
func TestAllDrafts(t *testing.T) {
	workloads, _ := draft.Workloads()
	loads, _ := draft.Loads()
	for _, w := range workloads {
		for _, l := range loads {
			d := draft.Answers{Workload: w, Load: l}
			if draft.NeedsFile(w) {
				d.File = filepath.Join("some", "rows")
			}
			err := draftMistakes(d)
			trace := slices.Contains(content.Traces(), w)
			if (err == nil) != (l != "replay" || trace) {
				t.Errorf("%s with %s: %v", w, l, err)
			}
		}
	}
}
