package resultscmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/report"
)

// unreadable says why a run directory's files cannot be made, and what can be done.
func unreadable(dir string, err error) error {
	if errors.Is(err, ledger.ErrDamaged) {
		return fmt.Errorf("%w\nno file was written; restore %s from a copy, or use what is intact: "+
			"spate report --salvage %s", err, filepath.Join(dir, ledger.File), dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return command.BadInputf("%s is not a run directory: there is no %s in it", dir, ledger.File)
	}
	return command.BadInputf("%s is not a run directory: %w", dir, err)
}

// salvage makes the files from the intact part of a damaged ledger. If the ledger is whole, it makes the files as
// usual.
func salvage(out, notes io.Writer, dir string, options report.Options, p *printing) error {
	result, damage, err := report.Salvage(dir, options)
	switch {
	case damage == nil && err == nil:
		fmt.Fprintf(notes, "spate: %s is intact, there is nothing to salvage\n", filepath.Join(dir, ledger.File))
		return writeReport(out, notes, dir, options, p)
	case result == nil:
		return unreadable(dir, err)
	case err != nil:
		return err
	}
	dir = filepath.Join(dir, report.SalvageDir)
	if err := p.print(out, dir, result); err != nil {
		return err
	}
	return command.Exit(command.ExitFailed, fmt.Errorf("what was intact is in %s: %w", dir, damage))
}

// writeReport makes a run directory's files and prints what is asked for.
func writeReport(out, notes io.Writer, dir string, options report.Options, p *printing) error {
	result, err := report.Write(dir, options)
	if result == nil {
		return unreadable(dir, err)
	}
	if err != nil {
		return err
	}
	if err := p.print(out, dir, result); err != nil {
		return err
	}
	if result.Run.Outcome == nil {
		fmt.Fprintf(
			notes,
			"spate: the run has not ended, so its result is partial; if its command was killed, spate runs resume %s runs the rest\n",
			dir,
		)
	}
	if failed := report.FailedThresholds(result); len(failed) > 0 {
		return command.Exit(command.ExitMissed, fmt.Errorf("%s: %s: %s", report.ThresholdWords(result), failed[0].Words(),
			report.ThresholdOutcome(failed[0])))
	}
	return nil
}

// showReport prints the tables of a result.
func showReport(out io.Writer, dir string, result *results.Result) error {
	if err := report.Table(out, result, terminal.Width(out)); err != nil {
		return err
	}
	fmt.Fprintf(out, "Run directory: %s\n", dir)
	return report.Answer(out, result, terminal.Width(out))
}
