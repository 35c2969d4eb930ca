package resultscmd

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/compare"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/compare/show"
	"github.com/spate-load/spate/internal/cli/clustercmd"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// historyFlags are the flags of `spate history`.
type historyFlags struct {
	numberFlags `typed:"only"`
	opener
}

// numberFlags say which number is shown, of which runs.
type numberFlags struct {
	Dir       string `flag:"dir" default:"runs" help:"<directory> of run directories, if no run is named"`
	Metric    string `flag:"metric" help:"<number>: a field of a stage in results.json that can be compared"`
	Plan      string `flag:"plan" help:"only runs of the plan of this <name>"`
	Target    string `flag:"target" help:"only stages of the target of this <name>"`
	Tolerance string `flag:"tolerance" default:"1%" help:"largest change that does not matter, in percent of the run before (of shares: in points)"`
	Limit     uint32 `flag:"limit" default:"30" help:"read at most this many runs, the newest, if none is named"`
	Format    string `flag:"format" default:"text" oneof:"text, json, html" help:"format: text, json, html"`
}

// NewHistory makes `spate history`.
func NewHistory() *cobra.Command {
	f := &historyFlags{numberFlags: numberFlags{Metric: compare.DefaultMetric}}
	return manual.New("history", cobra.ArbitraryArgs, f.run, f)
}

// run reads the runs and prints the history.
func (f *historyFlags) run(cmd *cobra.Command, args []string) error {
	metric, err := compare.MetricNamed(f.Metric)
	if err != nil {
		return command.BadInput(fmt.Errorf("--metric: %w", err))
	}
	tolerance, err := compare.Tolerance(f.Tolerance)
	if err != nil {
		return command.BadInputf("--tolerance %w", err)
	}
	defer f.close()
	var lines []*spatev1.HistoryLine
	var of string
	if f.Coordinator != "" && len(args) == 0 { // what it has recorded is compared with the default tolerance
		lines, of, err = f.recorded(cmd.Context())
	} else {
		lines, of, err = f.compared(cmd, args, metric, tolerance)
	}
	if err != nil {
		return err
	}
	lines = slices.DeleteFunc(lines, func(l *spatev1.HistoryLine) bool { return f.Target != "" && l.GetTarget() != f.Target })
	if len(lines) == 0 {
		return command.BadInputf("no stage of %s has %s: name runs, or see --dir, --coordinator, --plan and --target",
			of, f.Metric)
	}
	out := cmd.OutOrStdout()
	return show.History(out, lines, f.Format, terminal.Width(out))
}

// recorded returns what a coordinator has recorded of its runs, and which runs these are, in words.
func (f *historyFlags) recorded(ctx context.Context) ([]*spatev1.HistoryLine, string, error) {
	conn, err := f.Connect()
	if err != nil {
		return nil, "", err
	}
	defer conn.Close()
	answer, err := clustercmd.Ask(ctx, f.Coordinator, spatev1.NewRunServiceClient(conn).ReadHistory,
		&spatev1.ReadHistoryRequest{Plan: f.Plan, Metric: f.Metric, Limit: f.Limit})
	return answer.GetLines(), "the coordinator's runs", err
}

// compared reads runs, compares them, and returns which these are, in words.
func (f *historyFlags) compared(
	cmd *cobra.Command, names []string, metric *compare.Metric, tolerance float64,
) (lines []*spatev1.HistoryLine, of string, err error) {
	named := len(names) > 0
	if !named {
		if names, err = runfiles.Newest(f.Dir, int(f.Limit)); err != nil {
			return nil, "", command.BadInput(fmt.Errorf("--dir: %w", err))
		}
	}
	defer terminal.Reading(cmd.ErrOrStderr())()
	runs, err := f.read(cmd, names, named)
	if err != nil {
		return nil, "", command.BadInput(err)
	}
	lines, err = compare.History(runs, metric, compare.Options{Tolerance: tolerance})
	return lines, words.Count(uint64(len(runs)), "run"), err
}

// read opens the runs, without those of other plans. One that cannot be read is an error if a person named it, and is
// left out with a warning if not.
func (f *historyFlags) read(cmd *cobra.Command, names []string, named bool) (runs []*compare.Run, err error) {
	for _, name := range names {
		var file *runfiles.File
		if file, err = f.open(cmd.Context(), name); err != nil && named {
			return nil, err
		}
		if errors.Is(err, ledger.ErrLocked) {
			err = errors.New("it is in progress")
		}
		if err != nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "! %s is left out: %v\n", name, err)
			continue
		}
		if plan := file.Result.Run.Plan; f.Plan == "" || plan != nil && *plan == f.Plan {
			runs = append(runs, &file.Run)
		}
	}
	return runs, nil
}
