package clustercmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
		return fmt.Errorf("%s is not a run directory: there is no %s in it; nothing was removed", dir,
			ledger.File)
	case errors.Is(err, ledger.ErrLocked):
		return fmt.Errorf("the run in %s has not ended: nothing was removed", dir)
	}
	return nil
}
