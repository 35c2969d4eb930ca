package resultscmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/agent/host"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/show"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
)

// flags of the command.
type flags struct {
	compareFlags `typed:"only"`
	opener
}

type compareFlags struct {
	Tolerance string `flag:"tolerance" default:"1%" help:"largest change that does not matter, in percent of the baseline (of shares: in points)"`
	Format    string `flag:"format" default:"text" oneof:"text, markdown, json, html" help:"format: text, markdown, json, html"`
	FailOn    string `flag:"fail-on" default:"never" oneof:"never, worse, different" help:"exit with 5 if a number is worse, or different: never, worse, different"`
	By        string `flag:"by" default:"run" oneof:"run, target" help:"what to compare: run, or target for the targets of runs"`
	Invalid   bool   `flag:"allow-invalid" help:"also compare stages that are INVALID or incomplete"`
	All       bool   `flag:"all" help:"list all numbers, not only those that differ"`
}

// NewCompare makes `spate compare`.
func NewCompare() *cobra.Command {
	f := &flags{}
	return manual.New("compare", cobra.MinimumNArgs(1), f.run, f)
}

// run compares the runs and prints the comparison.
func (f *flags) run(cmd *cobra.Command, args []string) error {
	host.CollectLess(25) // a run is read piece by piece, and each soon is garbage
	tolerance, err := compare.Tolerance(f.Tolerance)
	if err != nil {
		return command.BadInputf("--tolerance %w", err)
	}
	if len(args) < 2 && f.By == "run" {
		return command.BadInputf("only one run is given: give another one, or --by target to compare its targets")
	}
	defer f.close()
	done := terminal.Reading(cmd.ErrOrStderr())
	defer done()
	sides, err := f.sides(cmd.Context(), args)
	if err != nil {
		return command.BadInput(err)
	}
	c, err := compare.Of(sides, compare.Options{Tolerance: tolerance, AllowInvalid: f.Invalid})
	if err != nil {
		return command.BadInput(err)
	}
	done()
	out := cmd.OutOrStdout()
	if err := show.Write(out, c, f.Format, terminal.Width(out), f.All); err != nil {
		return err
	}
	return f.conclude(c)
}

// sides opens the runs of each argument: one that exists, or several with commas between them.
func (f *flags) sides(ctx context.Context, args []string) ([]compare.Side, error) {
	var sides []compare.Side
	for _, arg := range args {
		side := compare.Side{Name: arg}
		paths := []string{arg}
		if _, err := os.Stat(arg); err != nil {
			paths = strings.Split(arg, ",")
		}
		for _, path := range paths {
			if path == "" {
				return nil, fmt.Errorf("%q: a run is missing beside a comma", arg)
			}
			file, err := f.open(ctx, path)
			if err != nil {
				return nil, err
			}
			side.Runs = append(side.Runs, &file.Run)
		}
		if len(side.Runs) == 1 {
			side.Name = side.Runs[0].Name // an ID in full
		}
		sides = append(sides, side)
	}
	if f.By == "run" {
		return sides, nil
	}
	all := slices.Concat(lists.Each(sides, func(s compare.Side) []*compare.Run { return s.Runs })...)
	targets := compare.ByTarget(all)
	if len(targets) < 2 {
		return nil, errors.New("--by target: there is only one target; give a run with two or more")
	}
	return targets, nil
}

// conclude returns the error that a comparison ends with.
func (f *flags) conclude(c *compare.Comparison) error {
	compared, gaps := 0, ""
	for i := range c.Sides {
		compared += len(c.Sides[i].Stages) + len(c.Sides[i].Answers)
		gaps = cmp.Or(gaps, c.Sides[i].Gaps())
		if !c.Sides[i].Tested() {
			gaps = cmp.Or(gaps, "no number could be tested: there are no request rows, or too little data")
		}
	}
	worse, better := c.Count(compare.Worse), c.Count(compare.Better)
	failed := func(code int, words string) error { return command.Exit(code, errors.New(words)) }
	switch {
	case compared == 0:
		return failed(command.ExitFailed, gaps+": measure again, or compare with --allow-invalid")
	case f.FailOn == "never":
		return nil
	case gaps != "":
		return failed(command.ExitFailed, gaps)
	case worse > 0:
		return failed(command.ExitMissed, words.Count(uint64(worse), "number")+" worse than the baseline")
	case f.FailOn == "different" && better > 0:
		return failed(command.ExitMissed, words.Count(uint64(better), "number")+" better than the baseline")
	}
	return nil
}
