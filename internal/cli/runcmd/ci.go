package runcmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/report/ci"
)

// ciFlags say what is written for a CI system.
type ciFlags struct {
	JUnit  string `flag:"junit" typed:"only" help:"write thresholds and verdicts as test cases to this JUnit <file>"`
	GitHub bool   `flag:"github" typed:"only" help:"for GitHub Actions: annotate failures, and append the report to the job's page"`
}

// summaryVariable names the file that GitHub shows on the page of a job.
const summaryVariable = "GITHUB_STEP_SUMMARY"

// write writes what was asked for. Annotations go to notes.
func (f *ciFlags) write(notes io.Writer, r *results.Result, base *baselineResult, fail failOn) error {
	var errs []error
	if f.JUnit != "" {
		errs = append(errs, writeTo(f.JUnit, os.O_TRUNC, func(w io.Writer) error {
			return ci.JUnit(w, r, base.forCI(), fail.fails)
		}))
	}
	if !f.GitHub {
		return errors.Join(errs...)
	}
	errs = append(errs, ci.Annotations(notes, r, base.forCI(), fail.fails))
	if path := os.Getenv(summaryVariable); path != "" {
		errs = append(errs, writeTo(path, os.O_APPEND, func(w io.Writer) error {
			return errors.Join(report.Summary(w, r), base.summary(w))
		}))
	} else {
		fmt.Fprintf(notes, "spate: --github: %s is not set, so there is no summary\n", summaryVariable)
	}
	return errors.Join(errs...)
}

// writeTo writes a file, which is truncated or appended to.
func writeTo(path string, how int, write func(io.Writer) error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|how, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
