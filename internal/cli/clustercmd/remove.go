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
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// removeFlags are the flags of `spate runs rm`.
type removeFlags struct {
	Flags
	dirFlag
	Keep   command.Keep `typed:"only" with:"KEPT=runs|WHAT=runs under --dir that have ended|AGE=0|SPACE=0"`
	DryRun bool         `flag:"dry-run" typed:"only" help:"only say what would be removed"`
}

func newRunsRemove() *cobra.Command {
	f := &removeFlags{}
	cmd := &cobra.Command{
		Use:   "rm RUN...",
		Short: "Remove runs, here or on a coordinator",
		Long: `Remove runs with all their files. With --coordinator, RUN is the id of a run there, or a unique
prefix of it; a run that has not ended is refused. Without, RUN is a run directory on this machine.
Instead of names, --keep-runs, --keep-runs-for and --keep-runs-size remove the run directories
under --dir that exceed these limits, the oldest first; runs without an end, or with points that
wait for a database, stay. --dry-run only says what would be removed.`,
		Example: "  spate runs rm quickstart-20260329T101112Z-0a1b2c --coordinator 127.0.0.1:7700\n  spate runs rm runs/quickstart-20260329T101112Z-0a1b2c\n" +
			"  spate runs rm --keep-runs 20 --keep-runs-for 720h --dry-run",
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	command.Declare(cmd.Flags(), f)
	return cmd
}

// run checks the arguments and removes runs.
func (f *removeFlags) run(cmd *cobra.Command, args []string) error {
	limits := f.Keep.Limits()
	if err := f.Keep.Check("runs"); err != nil {
		return command.BadInput(err)
	}
	switch limited := limits != (files.Limits{}); {
	case limited == (len(args) > 0):
		return command.BadInputf(
			"name runs, or give one of --keep-runs, --keep-runs-for and --keep-runs-size\nsee: spate runs rm --help",
		)
	case limited && f.Coordinator != "":
		return command.BadInputf(
			"a coordinator has its own limits: start it with --keep-runs, --keep-runs-for or --keep-runs-size, or name runs",
		)
	case f.Coordinator != "":
		return f.there(cmd.Context(), cmd.OutOrStdout(), args)
	case limited:
		dirs, err := f.beyond(limits, time.Now())
		if err != nil {
			return command.BadInput(err)
		}
		return f.here(cmd.OutOrStdout(), dirs)
	}
	return f.here(cmd.OutOrStdout(), args)
}

// there removes runs of a coordinator.
func (f *removeFlags) there(ctx context.Context, out io.Writer, names []string) error {
	conn, err := f.Connect()
	if err != nil {
		return err
	}
	defer conn.Close()
	service := spatev1.NewRunServiceClient(conn)
	for _, name := range names {
		run, err := f.Find(ctx, service, name)
		if err != nil {
			return err
		}
		if !f.DryRun {
			if _, err := service.RemoveRun(ctx, &spatev1.RemoveRunRequest{RunId: run.GetRunId()}); err != nil {
				return Unreachable(f.Coordinator, err)
			}
		}
		f.said(out, run.GetRunId())
	}
	return nil
}

// said says what was removed.
func (f *removeFlags) said(out io.Writer, what string) {
	if f.DryRun {
		fmt.Fprintln(out, "would remove "+what)
		return
	}
	fmt.Fprintln(out, "removed "+what)
}

// here removes run directories. It checks all of them first, so that a mistake removes nothing.
func (f *removeFlags) here(out io.Writer, dirs []string) error {
	for _, dir := range dirs {
		if err := removable(dir); err != nil {
			return command.BadInput(err)
		}
	}
	for _, dir := range dirs {
		if !f.DryRun {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
		f.said(out, dir)
	}
	return nil
}

// removable refuses a directory that is not a run directory, or that a process is writing.
func removable(dir string) error {
	switch err := ledger.Peek(filepath.Join(dir, ledger.File), func(*ledger.Ledger) error { return nil }); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s is not a run directory: there is no %s in it; nothing was removed", dir,
			ledger.File)
	case errors.Is(err, ledger.ErrLocked):
		return fmt.Errorf("the run in %s has not ended: nothing was removed", dir)
	}
	return nil
}

// beyond returns the run directories beyond the limits. Runs without an end are held, and so are runs whose points wait
// for a database.
func (f *removeFlags) beyond(limits files.Limits, now time.Time) (dirs []string, err error) {
	items, err := f.stored().Items(func(string) bool { return false })
	for _, i := range limits.Excess(items, now) {
		dirs = append(dirs, filepath.Join(f.Dir, i.Name))
	}
	return dirs, err
}
