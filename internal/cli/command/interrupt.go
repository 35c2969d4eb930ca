package command

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

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
