package runcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/compare/show"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/report/ci"
	"github.com/spate-load/spate/report/headline"
)

// gate compares a run with a baseline after its end, and stores it as the new baseline if that is wanted.
type gate struct {
	Dir       string  `flag:"gate" typed:"only" help:"compare the run with the one in this <directory>, and exit with 5 if a number is worse, and not by chance"`
	Accept    bool    `rare:"yes" flag:"accept" typed:"only" help:"with --gate: store the run there, if it can be relied on and its thresholds passed; the comparison does not count"`
	Tolerance float64 `rare:"yes" flag:"tolerance" typed:"only" default:"1" help:"with --gate: largest worsening that does not matter, in <percent>"`
}

// on reports whether the run passes a gate.
func (g *gate) on() bool { return g.Dir != "" }

// check finds mistakes in the flags. baseline is that of --baseline.
func (g *gate) check(baseline string) error {
	info, err := os.Stat(g.Dir)
	switch {
	case !g.on() && g.Accept:
		return errors.New("--accept needs --gate DIR, the directory to store the run in")
	case !(g.Tolerance >= 0 && g.Tolerance < 100):
		return fmt.Errorf("--tolerance %v: want a percentage from 0 to below 100", g.Tolerance)
	case g.on() && baseline != "":
		return errors.New("--gate and --baseline exclude one another: thresholds, too, compare with the run of --gate")
	case g.on() && !g.Accept && errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("--gate %s: no run is there to compare with: --accept stores this one there", g.Dir)
	case g.Accept && err == nil && !info.IsDir():
		return fmt.Errorf("--gate %s is not a directory: --accept stores a run in a directory", g.Dir)
	}
	return nil
}

// mayBeMissing reports whether a baseline need not exist yet, because the run is to become it.
func (g *gate) mayBeMissing() bool {
	_, err := os.Stat(g.Dir)
	return g.Accept && errors.Is(err, os.ErrNotExist)
}

// baselineResult is how a run compares with its baseline. Nil: they were not compared.
type baselineResult struct {
	comparison *compare.Comparison // nil: the two have nothing in common
	fails      string              // why the run does not pass, in words; empty: it passes, or this does not count
}

// compare prints how a run differs from the baseline.
func (g *gate) compare(out io.Writer, dir string) (*baselineResult, error) {
	before, err := runfiles.Open(g.Dir)
	if err != nil {
		return nil, err
	}
	defer before.Close() // opened for reading only, as the next one
	after, err := runfiles.Open(dir)
	if err != nil {
		return nil, err
	}
	defer after.Close()
	c, err := compare.Of([]compare.Side{
		{Name: g.Dir, Runs: []*compare.Run{&before.Run}}, {Name: dir, Runs: []*compare.Run{&after.Run}},
	}, compare.Options{Tolerance: g.Tolerance / 100})
	if errors.Is(err, compare.ErrNothingInCommon) {
		return &baselineResult{fails: "the run cannot be compared with the baseline: " + err.Error()}, nil
	}
	if err != nil {
		return nil, err
	}
	fmt.Fprintln(out)
	if err := show.Write(out, c, "text", terminal.Width(out), false); err != nil {
		return nil, err
	}
	return &baselineResult{c, failure(&c.Sides[0])}, nil
}

// failure says why a run does not pass a comparison, or "".
func failure(against *compare.Against) string {
	if n := against.Counts()[compare.Worse]; n > 0 {
		return words.Count(uint64(n), "number") + " worse than in the baseline"
	}
	if gaps := against.Gaps(); gaps != "" {
		return "the comparison with the baseline has gaps: " + gaps
	}
	return ""
}

// forCI returns what a CI system is told.
func (b *baselineResult) forCI() *ci.Baseline {
	if b == nil {
		return nil
	}
	base := &ci.Baseline{Fails: b.fails}
	if b.comparison == nil {
		return base
	}
	base.Answer = headline.Compared(&b.comparison.Sides[0], b.comparison.Baseline)
	answers := b.comparison.Sides[0].Answers
	base.Stages = lists.Each(b.comparison.Sides[0].Stages, func(s compare.Stage) ci.BaselineStage {
		return ci.BaselineStage{Name: show.StageName(&s), Worse: show.Worse(&s)}
	})
	for i := range answers {
		of := ci.BaselineStage{Name: show.AnswerTitle(&answers[i])}
		if d := &answers[i].Difference; d.Outcome == compare.Worse {
			of.Worse = []string{show.Change(d)}
		}
		base.Stages = append(base.Stages, of)
	}
	left := slices.Concat(b.comparison.Sides[0].Refused, b.comparison.Sides[0].Unmatched)
	base.NotCompared = lists.Each(left, func(l compare.Left) string { return l.Stage + ": " + l.Why })
	return base
}

// summary appends the comparison to the page of a CI job.
func (b *baselineResult) summary(w io.Writer) error {
	if b == nil || b.comparison == nil {
		return nil
	}
	return show.Write(w, b.comparison, "markdown", 0, false)
}

// store copies the files of a run that a baseline needs to its directory.
func (g *gate) store(dir string) error {
	if err := os.MkdirAll(g.Dir, 0o755); err != nil {
		return err
	}
	for _, name := range []string{ledger.File, "plan.yaml", results.File} {
		if err := copyFile(filepath.Join(dir, name), filepath.Join(g.Dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file, and replaces the existing one as a whole.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() // opened for reading only
	return files.ReplaceBy(to, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}
