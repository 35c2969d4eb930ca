package resultscmd

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	"github.com/spate-load/spate/aggregate/sink/influx"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/settings"
	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/report"
)

// NewExport makes `spate export`.
func NewExport() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "export",
		Short: "Write a finished run to a database",
		Args:  command.Arguments(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExportInflux())
	return cmd
}

// exportFlags are the flags of `spate export influx`.
type exportFlags struct {
	influx   settings.Influx
	patience time.Duration
	quiet    bool
}

func newExportInflux() *cobra.Command {
	var f exportFlags
	cmd := &cobra.Command{
		Use:   "influx RUN_DIR --influx-url URL --influx-bucket BUCKET",
		Short: "Write a finished run to InfluxDB from its ledger",
		Long: `Write a finished run to InfluxDB, from the ledger in its run directory: the same points that are written while a run goes on, so that a
run that was written live is written over itself. What a live run could not deliver and left in the directory (influx.spool) is sent first.
Only agents' heartbeats are in no ledger: they are written live or not at all.

When it is cut short, run it again: points that are there already stay the same.

` + command.ExitHelp,
		Example: `  spate export influx runs/quickstart-20260329 --influx-url http://localhost:8086 --influx-org o --influx-bucket spate --influx-token env:TOKEN
  spate export influx runs/today --influx-url http://localhost:8086 --influx-bucket db/autogen --influx-token file:user-and-password`,
		Args: command.Arguments(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	f.influx.AddFlags(cmd.Flags())
	cmd.Flags().DurationVar(&f.patience, "patience", influx.DefaultPatience,
		"how long the server may fail before this is given up")
	cmd.Flags().BoolVar(&f.quiet, "no-progress", false, "print no progress, only the end")
	return cmd
}

// run checks everything, sends what a live run left unsent, and then sends the ledger's points.
func (f *exportFlags) run(cmd *cobra.Command, dir string) error {
	logger, err := settings.Logger(cmd.ErrOrStderr(), "warn", "text")
	if err != nil {
		return err
	}
	config, err := f.config(logger)
	if err != nil {
		return command.BadInput(err)
	}
	ledger, err := openRun(dir)
	if err != nil {
		return command.BadInput(err)
	}
	defer ledger.Close() // opened for reading only
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := influx.Check(ctx, config); err != nil {
		return f.gaveUp(ctx, 0, command.BadInput(err))
	}
	writer, err := influx.NewWriter(config, f.patience)
	if err != nil {
		return command.BadInput(err)
	}
	defer writer.Close()
	e := &export{writer: writer, out: cmd.ErrOrStderr(), quiet: f.quiet, said: time.Now()}
	if err := e.all(ctx, ledger, dir); err != nil {
		return f.gaveUp(ctx, writer.Written(), err)
	}
	return e.conclude(cmd.OutOrStdout(), config, ledger)
}

// config returns where to write.
func (f *exportFlags) config(logger *slog.Logger) (influx.Config, error) {
	if f.influx.URL == "" {
		return influx.Config{}, errors.New("nowhere to write to: give --influx-url and --influx-bucket")
	}
	if f.patience < 0 {
		return influx.Config{}, fmt.Errorf("--patience %v: want at least 0", f.patience)
	}
	return f.influx.Config(logger)
}

// openRun opens the ledger in a run directory.
func openRun(dir string) (*ledger.Ledger, error) {
	ledger, err := ledger.OpenReadOnly(filepath.Join(dir, report.LedgerFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s is no run directory: there is no %s in it", dir, report.LedgerFile)
	}
	return ledger, err
}

// gaveUp adds to an error what to do next.
func (f *exportFlags) gaveUp(ctx context.Context, written int, err error) error {
	if ctx.Err() != nil {
		return command.Exit(command.ExitStopped,
			fmt.Errorf("interrupted after %s points: run the command again to write the rest",
				terminal.Thousands(uint64(written))))
	}
	if command.ExitCode(err) == command.ExitInput {
		return err // it says what to change, and nothing was started
	}
	return fmt.Errorf(
		"given up after %s points: %w; run the command again when that is mended: points written twice are the same",
		terminal.Thousands(uint64(written)),
		err,
	)
}

// export writes a run's points and reports progress.
type export struct {
	writer *influx.Writer
	out    io.Writer
	quiet  bool
	said   time.Time // when progress was reported last
}

// all writes what a live run left unsent, and the ledger's points.
func (e *export) all(ctx context.Context, ledger *ledger.Ledger, dir string) error {
	sent, err := e.writer.Spool(ctx, filepath.Join(dir, settings.SpoolFile))
	if err != nil {
		return err
	}
	if sent > 0 && !e.quiet {
		fmt.Fprintf(e.out, "%s points that the live run had left in %s are sent; the file is gone.\n",
			terminal.Thousands(uint64(sent)), settings.SpoolFile)
	}
	err = points.Replay(ledger, func(rows []sink.Row) error { return e.writer.Write(ctx, rows) },
		func(p points.Progress) error {
			e.show(p)
			return context.Cause(ctx)
		})
	if err != nil {
		return err
	}
	return e.writer.Flush(ctx)
}

// sayEvery is how often progress is reported.
const sayEvery = 2 * time.Second

// show reports progress, at most once in sayEvery.
func (e *export) show(p points.Progress) {
	if e.quiet || time.Since(e.said) < sayEvery {
		return
	}
	e.said = time.Now()
	fmt.Fprintf(e.out, "stage %d of %d, second %d: %s points written\n", p.Stage, p.Stages, p.Window+1,
		terminal.Thousands(uint64(e.writer.Written())))
}

// conclude says what was written, and what is missing.
func (e *export) conclude(out io.Writer, config influx.Config, ledger *ledger.Ledger) error {
	run, err := ledger.Run()
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s points of run %s are in %s, bucket %s.\n", terminal.Thousands(uint64(e.writer.Written())),
		run.GetRunId(), config.URL, config.Bucket)
	if run.GetEndTime() == nil {
		fmt.Fprintln(e.out, "spate: the run has no end: its coordinator died. Export it again if the run goes on.")
	}
	if refused, why := e.writer.Refused(); refused > 0 {
		return command.Exit(command.ExitFailed, fmt.Errorf("%s points were refused for good, the ledger has them: %w",
			terminal.Thousands(uint64(refused)), why))
	}
	return nil
}
