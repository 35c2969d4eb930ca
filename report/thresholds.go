package report

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/table"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/thresholds"
)

// BaselineFile is the name of the copy of the baseline's results.json in a run directory, with which thresholds are
// compared again whenever the directory's files are made again.
const BaselineFile = "baseline.json"

// Baseline is the result of an earlier run, which thresholds compare with.
type Baseline struct {
	data   []byte
	result *results.Result
}

// ReadBaseline reads the result of a run from its directory, or from its results.json. The error says what is wrong
// with path.
func ReadBaseline(path string) (*Baseline, error) {
	file := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		file = filepath.Join(path, results.File)
	}
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && file != path:
		return nil, fmt.Errorf("%s is not a run directory: there is no %s in it", path, results.File)
	case err != nil:
		return nil, err
	}
	result, err := results.Read(data)
	if err == nil && result.Stages == nil {
		err = errors.New("it has no stages")
	}
	if err != nil {
		return nil, fmt.Errorf("%s is not the results.json of a run: %w", file, err)
	}
	return &Baseline{data, result}, nil
}

// Keep writes a copy to a run directory, where Write finds it.
func (b *Baseline) Keep(dir string) error {
	return files.Replace(filepath.Join(dir, BaselineFile), b.data)
}

// keptBaseline returns the baseline that a run directory has, or nil if there is none.
func keptBaseline(dir string) (*results.Result, error) {
	kept, err := ReadBaseline(filepath.Join(dir, BaselineFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return kept.result, nil
}

// judged adds the outcomes of the thresholds of the plan and of flags to a result.
func judged(r *results.Result, planYAML []byte, o Options) error {
	ofPlan, err := plans.Thresholds(planYAML)
	if err != nil {
		return err
	}
	ofFlags := lists.Each(o.Thresholds, func(that string) *spatev1.Threshold { return &spatev1.Threshold{That: that} })
	r.Thresholds = append(thresholds.Evaluate(ofPlan, thresholds.FromPlan, r, o.baseline),
		thresholds.Evaluate(ofFlags, thresholds.FromFlag, r, o.baseline)...)
	return nil
}

// ThresholdWords returns how many thresholds passed or failed: "4 thresholds passed", "1 of 4 thresholds failed". It
// returns "" if there are none.
func ThresholdWords(r *results.Result) string {
	all, failed := len(r.Thresholds), len(FailedThresholds(r))
	count := words.Count(uint64(all), "threshold")
	switch {
	case all == 0:
		return ""
	case failed == 0:
		return count + " passed"
	}
	return fmt.Sprintf("%d of %s failed", failed, count)
}

// FailedThresholds returns the thresholds that did not pass.
func FailedThresholds(r *results.Result) (failed []results.Threshold) {
	return lists.Where(r.Thresholds, func(t results.Threshold) bool { return !t.Passed })
}

// ThresholdOutcome returns the outcome of a threshold in words: the first stage that failed with its value, and how
// many failed.
func ThresholdOutcome(t results.Threshold) string {
	if t.Reason != nil {
		return *t.Reason
	}
	all := words.Count(uint64(len(t.Stages)), "stage")
	failed := lists.Where(t.Stages, func(s results.ThresholdStage) bool { return !s.Passed })
	if len(failed) == 0 {
		return all
	}
	text := fmt.Sprintf("stage %s: %s", thresholdStage(failed[0]), failed[0].Words)
	if more := len(failed) - 1; more > 0 {
		text += fmt.Sprintf("; and %d more of %s", more, all)
	}
	return text
}

// thresholdStage names a stage as stageName does.
func thresholdStage(s results.ThresholdStage) string {
	return fmt.Sprintf("%d (%s, %s, %s)", s.Index+1, s.Target, s.Workload, s.Load)
}

// thresholdLines returns a line for each threshold, those that failed first.
func thresholdLines(r *results.Result) (lines []string) {
	for _, passed := range []bool{false, true} {
		for _, t := range r.Thresholds {
			if t.Passed == passed {
				lines = append(lines, fmt.Sprintf("%s %s: %s", passedWord(passed), t.Words(), ThresholdOutcome(t)))
			}
		}
	}
	return lines
}

func passedWord(passed bool) string {
	if passed {
		return "passed"
	}
	return "FAILED"
}

// thresholdsSection returns the outcome of each threshold and stage, those that failed first.
func thresholdsSection(r *results.Result) table.Section {
	if len(r.Thresholds) == 0 {
		return table.Section{}
	}
	var rows [][]string
	for _, passed := range []bool{false, true} {
		for _, t := range r.Thresholds {
			if t.Reason != nil && !passed {
				rows = append(rows, []string{passedWord(false), t.Words(), unknown, *t.Reason})
			}
			for _, s := range t.Stages {
				if s.Passed == passed {
					rows = append(rows, []string{passedWord(passed), t.Words(), thresholdStage(s), s.Words})
				}
			}
		}
	}
	return table.NewSection("Thresholds", table.Text("%s.", ThresholdWords(r)),
		table.Texts([]string{"Outcome", "Threshold", "Stage", "Value"}, rows))
}
