package runcmd

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/report/ci"
)

// ciFlags say what is written for a CI system.
type ciFlags struct {
	junit  string
	github bool
}

// summaryVariable names the file that GitHub shows on the page of a job.
const summaryVariable = "GITHUB_STEP_SUMMARY"

func (f *ciFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.junit, "junit", "", "write thresholds and verdicts as test cases to this JUnit `file`")
	flags.BoolVar(&f.github, "github", false,
		"for GitHub Actions: annotate failures, and append the report to the job's page")
	settings.TypedOnly(flags, "junit", "github")
}

// write writes what was asked for. Annotations go to notes.
func (f *ciFlags) write(notes io.Writer, r *results.Result, base *baselineResult, fail failOn) error {
	var errs []error
	if f.junit != "" {
		errs = append(errs, writeTo(f.junit, os.O_TRUNC, func(w io.Writer) error {
			return ci.JUnit(w, r, base.forCI(), fail.fails)
		}))
	}
	if !f.github {
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
