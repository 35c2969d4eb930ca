package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spate-load/spate/internal/reason"
)

// NewDaemon makes the command of a daemon by its section in a manual. program is what people type to run it, such as
// spate-agent or spate agent. run blocks until its context ends, which SIGINT and SIGTERM cause.
func (m Manual) NewDaemon(
	name, program, version string,
	run func(ctx context.Context, version string, logger *slog.Logger) error, settings any,
) *cobra.Command {
	var logging struct {
		Level  string `rare:"yes" flag:"log-level" default:"info" words:"debug, info, warn, error" help:"debug, info, warn or error"`
		Format string `rare:"yes" flag:"log-format" default:"text" words:"text, json" help:"text or json"`
	}
	m = Manual(strings.ReplaceAll(string(m), "PROGRAM", program))
	cmd := m.New(name, nil, func(cmd *cobra.Command, _ []string) error {
		if err := Apply(cmd); err != nil {
			return BadInput(err)
		}
		log := newLines(cmd.ErrOrStderr())
		defer log.close()
		logger, err := Logger(log, logging.Level, logging.Format)
		if err != nil {
			return BadInput(err)
		}
		ctx, stop := notified(cmd.Context())
		defer stop()
		return run(ctx, version, logger)
	})
	cmd.Use, cmd.Version = program[strings.LastIndexByte(program, ' ')+1:], version
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) > 0 {
			return BadInputf("unknown argument %q\nsee: %s --help", args[0], program)
		}
		return nil
	}
	AddFlag(cmd)
	SetUsage(cmd)
	Declare(cmd.Flags(), &logging)
	Declare(cmd.Flags(), settings)
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return BadInputf("%w\nsee: %s --help", err, program)
	})
	return cmd
}

// ErrTerminated is the cause of a daemon's context if SIGTERM ended it: the sender may restart the daemon.
var ErrTerminated = errors.New("terminated by a signal")

// notified returns a context that ends at SIGINT or SIGTERM.
func notified(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				cancel(ErrTerminated)
			}
			cancel(nil)
		case <-ctx.Done():
		}
	}()
	return ctx, func() { cancel(nil) }
}

// Main executes the command and returns its exit code.
func Main(cmd *cobra.Command) int {
	FilterLog(os.Stderr)
	err := cmd.ExecuteContext(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, cmd.Name()+": "+reason.Plain(err.Error()))
	}
	return ExitCode(err)
}

// Version returns the version that the build set, or else the one in Go's build information.
func Version(set string) string {
	if set != "" {
		return set
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// stopGrace is how long work may take to clean up after an interrupt. Work may also hang in a read that never returns,
// such as of a pipe without a writer; the program ends anyway.
const stopGrace = time.Second

// UntilInterrupted does work that comes before a run, and returns its error. After Ctrl-C it returns as soon as the
// work has cleaned up, or after stopGrace. A second Ctrl-C ends the program at once.
func UntilInterrupted(ctx context.Context, what string, work func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	done := make(chan struct{})
	go func() { defer close(done); err = work(ctx) }()
	select {
	case <-done:
		if ctx.Err() == nil || err == nil {
			return err
		}
	case <-ctx.Done():
		stop()
		select {
		case <-done:
		case <-time.After(stopGrace):
		}
	}
	return Exit(ExitStopped, fmt.Errorf("interrupted while %s: nothing was started", what))
}
