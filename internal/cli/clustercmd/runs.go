package clustercmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/storage"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/terminal"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// dirFlag says where run directories are.
type dirFlag struct {
	Dir string `flag:"dir" default:"runs" help:"without --coordinator: <directory> of run directories"`
}

// stored returns the runs below the directory.
func (f *dirFlag) stored() *storage.Runs { return storage.New(f.Dir, "") }

// runsFlags are the flags of `spate runs`.
type runsFlags struct {
	Flags
	outputFlag
	dirFlag
	Long  bool   `flag:"long" help:"also show when and from where runs were submitted, who stopped them, and why they wait or ended early"`
	Limit uint32 `flag:"limit" default:"50" help:"list at most this many runs, the newest"`
}

// NewRuns makes `spate runs` and its subcommands, others of which are given.
func NewRuns(others ...*cobra.Command) *cobra.Command {
	f := &runsFlags{}
	cmd := manual.New("runs", cobra.NoArgs, f.run, f)
	cmd.AddCommand(append(others, newRunsRemove())...)
	return cmd
}

// run lists runs.
func (f *runsFlags) run(cmd *cobra.Command, _ []string) error {
	command.Prefer(cmd.Flags(), "dir", "coordinator")
	runs, err := f.list(cmd.Context())
	switch {
	case err != nil:
		return err
	case f.Output == "json":
		return writeJSON(cmd.OutOrStdout(), &spatev1.ListRunsResponse{Runs: runs})
	case len(runs) == 0 && f.Coordinator == "":
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "No runs in %s. Those of a coordinator: spate runs --coordinator HOST:PORT\n", f.Dir)
		return err
	}
	return writeRuns(cmd.OutOrStdout(), runs, f.Long, time.Now())
}

// list returns the runs of the coordinator, or those below --dir if there is none.
func (f *runsFlags) list(ctx context.Context) ([]*spatev1.RunSummary, error) {
	if f.Coordinator == "" {
		return f.stored().Newest(int(f.Limit), nil)
	}
	conn, err := f.Connect()
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return f.ListRuns(ctx, spatev1.NewRunServiceClient(conn), f.Limit)
}

// writeRuns prints runs as a table. If a terminal is too narrow for all columns, the last ones are omitted, unless the
// list is long.
func writeRuns(w io.Writer, runs []*spatev1.RunSummary, long bool, now time.Time) error {
	if len(runs) == 0 {
		_, err := fmt.Fprintln(w, "No runs. Submit one with: spate run PLAN.yaml")
		return err
	}
	if long {
		return watch.RunsLong(runs, now, time.Local).Capitals().Write(w, 0)
	}
	return watch.Runs(runs, now, time.Local).Capitals().Write(w, terminal.Width(w))
}

func newRunsRemove() *cobra.Command {
	f := &Flags{}
	return manual.New("rm", cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) error {
		if f.Coordinator != "" {
			return removeThere(cmd, f, args)
		}
		return removeHere(cmd.OutOrStdout(), args)
	}, f)
}

// removeThere removes runs of a coordinator.
func removeThere(cmd *cobra.Command, f *Flags, names []string) error {
	conn, err := f.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	service := spatev1.NewRunServiceClient(conn)
	for _, name := range names {
		run, err := f.Find(cmd.Context(), service, name)
		if err != nil {
			return err
		}
		if _, err := service.RemoveRun(cmd.Context(), &spatev1.RemoveRunRequest{RunId: run.GetRunId()}); err != nil {
			return Unreachable(f.Coordinator, err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), "removed "+run.GetRunId())
	}
	return nil
}

// removeHere removes run directories. It checks all of them first, so that a mistake removes nothing.
func removeHere(out io.Writer, dirs []string) error {
	for _, dir := range dirs {
		if err := removable(dir); err != nil {
			return command.BadInput(err)
		}
	}
	for _, dir := range dirs {
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
		fmt.Fprintln(out, "removed "+dir)
	}
	return nil
}

// removable refuses a directory that is not a run directory, or that a process is writing.
func removable(dir string) error {
	switch err := ledger.Peek(filepath.Join(dir, ledger.File), func(*ledger.Ledger) error { return nil }); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not a run directory: there is no %s in it; nothing was removed", dir, ledger.File)
	case errors.Is(err, ledger.ErrLocked):
		return fmt.Errorf("the run in %s has not ended: nothing was removed", dir)
	}
	return nil
}
