package runfiles

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/audit"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/histogram"
)

// ofTool returns the run in a file of another tool. Its stages have no workload, and a load if the file tells it.
func ofTool(name string, content []byte) (*File, error) {
	tool, all, err := audit.Measurements(content)
	switch {
	case err != nil:
		return nil, err
	case tool == "Spate":
		return nil, errors.New("parts of it are missing")
	}
	run := compare.Run{Name: name, Tool: tool, Result: &results.Result{}, Numbers: map[uint32]map[string]*float64{}}
	for i, m := range all {
		s := results.StageResult{Index: uint32(i), Target: tool, Complete: true}
		for length, of := range map[string]**histogram.Summary{"isl_tokens": &s.ISL.Seen, "osl_tokens": &s.OSL.Seen} {
			if tokens := m[length+".mean"]; tokens != nil {
				*of = &histogram.Summary{Mean: *tokens}
			}
		}
		if n := uint32(*cmp.Or(m["load.concurrency"], new(0.0))); n > 0 {
			s.Load = results.Load{Words: fmt.Sprintf("concurrency %d", n), Concurrency: &n}
		} else if rate := m["load.rate"]; rate != nil {
			s.Load = results.Load{Words: fmt.Sprintf("%g req/s", *rate), Rate: rate}
		}
		run.Result.Stages, run.Numbers[s.Index] = append(run.Result.Stages, s), m
	}
	return &File{Run: run}, nil
}
