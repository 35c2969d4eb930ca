package resultscmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/aggregate/sink/delivery"
	"github.com/spate-load/spate/compare/runfiles"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/coordinatorcmd"
	"github.com/spate-load/spate/internal/words"
)

// exportFlags are the flags of `spate runs export`.
type exportFlags struct {
	Sinks    coordinatorcmd.Sinks
	Patience time.Duration `flag:"patience" help:"how long to retry while the server fails"`
}

// NewExport makes `spate runs export`.
func NewExport() *cobra.Command {
	f := &exportFlags{Patience: delivery.DefaultPatience}
	return manual.New("export", cobra.ExactArgs(1), f.run, f)
}

// run checks everything, and then sends the ledger's points.
func (f *exportFlags) run(cmd *cobra.Command, args []string) error {
	dir := runfiles.Named(args[0])
	logger, err := command.Logger(cmd.ErrOrStderr(), "warn", "text")
	if err != nil {
		return err
	}
	db, err := f.open(logger)
	if err != nil {
		return command.BadInput(err)
	}
	defer db.Close()
	ledger, err := ledger.OpenReadOnly(filepath.Join(dir, ledger.File))
	if errors.Is(err, fs.ErrNotExist) {
		return unreadable(dir, err)
	}
	if err != nil {
		return command.BadInput(err)
	}
	defer ledger.Close() // opened for reading only
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := db.Check(ctx); err != nil {
		return f.stopped(ctx, 0, command.BadInput(err))
	}
	writer := delivery.NewWriter(db, f.Patience, logger)
	if err := write(ctx, writer, ledger); err != nil {
		return f.stopped(ctx, writer.Written(), err)
	}
	return concludeExport(cmd, writer, db, dir, ledger)
}

// open opens the database.
func (f *exportFlags) open(logger *slog.Logger) (delivery.Database, error) {
	if len(f.Sinks.URLs) != 1 {
		return nil, errors.New("give one database to write to, such as --sink 'influx+http://localhost:8086?bucket=b'")
	}
	if f.Patience < 0 {
		return nil, fmt.Errorf("--patience %v: want at least 0", f.Patience)
	}
	databases, err := f.Sinks.Open(logger)
	if err != nil {
		return nil, err
	}
	return databases[0], nil
}

// stopped adds to an error what to do next.
func (f *exportFlags) stopped(ctx context.Context, written int, err error) error {
	if ctx.Err() != nil {
		return command.Exit(command.ExitStopped,
			fmt.Errorf("interrupted after %s points: run the command again to write the rest",
				words.Thousands(uint64(written))))
	}
	if command.ExitCode(err) == command.ExitInput {
		return err // it says what to change, and nothing was started
	}
	return fmt.Errorf("stopped after %s points: %w; run the command again when this is fixed: points written twice are the same",
		words.Thousands(uint64(written)), err)
}

// write writes the ledger's points.
func write(ctx context.Context, writer *delivery.Writer, ledger *ledger.Ledger) error {
	err := points.Replay(ledger, func(rows []sink.Row) error { return writer.Write(ctx, rows) },
		func(points.Progress) error { return context.Cause(ctx) })
	if err != nil {
		return err
	}
	return writer.Flush(ctx)
}

// concludeExport says what was written, and what is missing.
func concludeExport(
	cmd *cobra.Command, writer *delivery.Writer, db delivery.Database, dir string, ledger *ledger.Ledger,
) error {
	run, err := ledger.Run()
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s points of run %s are in %s.\n", words.Thousands(uint64(writer.Written())), run.GetRunId(),
		db.Place())
	if run.GetEndTime() == nil {
		fmt.Fprintln(cmd.ErrOrStderr(), "spate: the run has no end: its coordinator was lost; export it again if the run is resumed")
	} else if err := delivery.Complete(dir, db.Kind()); err != nil {
		return err
	}
	if refused, why := writer.Refused(); refused > 0 {
		return command.Exit(command.ExitFailed, fmt.Errorf("%s points were refused, the ledger has them: %w",
			words.Thousands(uint64(refused)), why))
	}
	return nil
}
