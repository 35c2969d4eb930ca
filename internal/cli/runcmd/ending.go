package runcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/report"
	"github.com/spate-load/spate/report/ci"
	"github.com/spate-load/spate/watch"
)

// failOn says which verdicts make a command exit with 3: "invalid", "suspect" (and invalid) or "never".
type failOn string

// fails reports whether to fail on a verdict.
func (f failOn) fails(v trust.Verdict) bool {
	return f == "invalid" && v == trust.Invalid || f == "suspect" && (v == trust.Invalid || v == trust.Suspect)
}

// ending is how a run ended. Every command that waits for a run, or fetches one, takes its last lines and its exit code
// from an ending.
type ending struct {
	id string
	*spatev1.RunEnded
	result  *results.Result // nil: the results are not here
	unbegun bool            // it ended while it waited for other runs
	accept  bool            // the run becomes the baseline: conditions that compare with the old one do not count

	baseline *baselineResult // nil: it was not compared with a baseline
}

// summaryEnding returns the ending of a run that a coordinator lists.
func summaryEnding(r *spatev1.RunSummary) ending {
	unbegun := r.GetBeginTime() == nil && r.GetState() == spatev1.RunState_RUN_STATE_ENDED
	return ending{id: r.GetRunId(), unbegun: unbegun, RunEnded: &spatev1.RunEnded{
		Outcome: r.GetOutcome(), Complete: r.GetComplete(), Reason: r.GetReason(), Verdict: r.GetVerdict(),
	}}
}

// resultEnding returns the ending of a run whose results are here.
func resultEnding(result *results.Result) ending {
	e := ending{id: result.Run.ID, result: result, RunEnded: &spatev1.RunEnded{Complete: result.Run.Complete}}
	if o := result.Run.Outcome; o != nil {
		e.Outcome = spatev1.Outcome(spatev1.Outcome_value["OUTCOME_"+strings.ToUpper(*o)])
	}
	if r := result.Run.Reason; r != nil {
		e.Reason = *r
	}
	if v := result.Run.Verdict; v != nil {
		e.Verdict = string(*v)
	}
	return e
}

// state returns the run's state in the words of `spate runs`.
func (e ending) state() string {
	switch {
	case e.GetOutcome() == spatev1.Outcome_OUTCOME_UNSPECIFIED:
		return "broken"
	case e.GetOutcome() == spatev1.Outcome_OUTCOME_DONE && !e.GetComplete():
		return "incomplete"
	}
	return watch.Outcome(e.GetOutcome())
}

// conclude prints the last lines, and returns the exit code as an error. dir is the run directory. Empty: there is
// none.
func (e ending) conclude(cmd *cobra.Command, dir string, fail failOn) error {
	out := cmd.OutOrStdout()
	state := e.state()
	if v := e.GetVerdict(); v != "" {
		state += ", " + v
	}
	palette := terminal.PaletteOf(out)
	state = colourState(palette, state)
	if words := e.thresholds(); words != "" {
		state += ", " + colourThresholds(palette, words)
	}
	fmt.Fprintf(out, "Run %s: %s\n", e.id, state)
	if dir != "" {
		fmt.Fprintf(out, "Run directory: %s\n", dir)
	}
	if e.result != nil {
		if err := report.Answer(out, e.result, terminal.Width(out)); err != nil {
			return err
		}
	}
	code, why := e.judge(fail)
	if code == command.ExitDone {
		return nil
	}
	errs := cmd.ErrOrStderr()
	for _, line := range words.Wrap("spate: "+why, terminal.Width(errs)) {
		fmt.Fprintln(errs, line)
	}
	return command.Exit(code, command.ErrPrinted)
}

// judge returns the exit code of the run, and the reason for it.
func (e ending) judge(fail failOn) (code int, why string) {
	switch outcome := e.GetOutcome(); {
	case outcome == spatev1.Outcome_OUTCOME_STOPPED:
		return command.ExitStopped, e.early() + cmp.Or(e.GetReason(), "it was stopped")
	case outcome == spatev1.Outcome_OUTCOME_UNSPECIFIED:
		return command.ExitFailed, "the run ended early: " +
			cmp.Or(e.GetReason(), "its coordinator was lost, and no other coordinator continued it")
	case outcome != spatev1.Outcome_OUTCOME_DONE:
		return command.ExitFailed, e.early() + cmp.Or(e.GetReason(), "the reason is not known")
	case !e.GetComplete():
		return command.ExitFailed, "the run reached its end, but its result is incomplete" + e.missing()
	case fail.fails(trust.Verdict(e.GetVerdict())):
		return command.ExitFailed, fmt.Sprintf("the run is complete, but its verdict is %s; report.md has all reasons; "+
			"to exit with 0 anyway: --fail-on never", e.GetVerdict())
	}
	var missed []string
	if failed := e.failedThreshold(); failed != "" {
		missed = append(missed, e.thresholds()+": "+failed)
	}
	if b := e.baseline; b != nil && b.fails != "" {
		missed = append(missed, b.fails)
	}
	if missed == nil {
		return command.ExitDone, ""
	}
	return command.ExitMissed, "the run is complete, but " + strings.Join(missed, "; ")
}

// failedThreshold returns the first threshold that failed and counts, with its outcome, or "".
func (e ending) failedThreshold() string {
	if e.result == nil {
		return ""
	}
	for _, t := range report.FailedThresholds(e.result) {
		if !e.accept || !usesBaseline(t.That, *cmp.Or(t.Part, new(string))) {
			return t.Words() + ": " + report.ThresholdOutcome(t)
		}
	}
	return ""
}

// thresholds says how many thresholds passed or failed, as far as that is known here.
func (e ending) thresholds() string {
	if e.result == nil {
		return ""
	}
	return report.ThresholdWords(e.result)
}

// early starts the reason of an early end.
func (e ending) early() string {
	if e.unbegun {
		return "the run never started, and has no results: "
	}
	return "the run ended early: "
}

// missing says what the results lack, as far as it is known here.
func (e ending) missing() string {
	if e.result == nil {
		return ": report.md says what is missing"
	}
	missing := e.result.Run.Missing
	switch len(missing) {
	case 0:
		return ""
	case 1:
		return ": " + missing[0]
	}
	return fmt.Sprintf(": %s; and %d more, see report.md", missing[0], len(missing)-1)
}

// colourState colours how a run ended, given as in `ending`.
func colourState(p terminal.Palette, state string) string {
	switch {
	case state == "done" || state == "done, VALID":
		return p.Paint(terminal.Green, state)
	case state == "done, SUSPECT" || strings.HasPrefix(state, "stopped"):
		return p.Paint(terminal.Yellow, state)
	}
	return p.Paint(terminal.Red, state)
}

// colourThresholds colours how many thresholds passed or failed.
func colourThresholds(p terminal.Palette, words string) string {
	if strings.HasSuffix(words, "failed") {
		return p.Paint(terminal.Red, words)
	}
	return p.Paint(terminal.Green, words)
}

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

// writeTo writes a file, which is truncated or appended to, and makes its directory.
func writeTo(path string, how int, write func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|how, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
