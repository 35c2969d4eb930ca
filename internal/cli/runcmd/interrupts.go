package runcmd

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/cli/terminal"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Reasons why a run is not followed to its end.
var (
	errGaveUp = errors.New("interrupted before the coordinator had ended the run")
	errLeft   = errors.New("interrupted: the run continues")
)

// stopTimeout is how long a coordinator may take to answer StopRun.
const stopTimeout = 5 * time.Second

// passOnSignals acts on interrupts, and on what the screen's keys ask for. It stops the run at the first interrupt and
// cancels requests in flight at the second. The third stops waiting, because the coordinator may no longer answer. A
// follower that only watches a run, or that cannot reach its coordinator, leaves the run at the first interrupt. The
// end of the terminal does not interrupt it, then or later: the results are still kept. The returned function ends the
// handling of interrupts.
func (f *follower) passOnSignals(ctx context.Context, giveUp context.CancelCauseFunc) func() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	signal.Ignore(syscall.SIGHUP) // a run does not depend on the terminal
	ctx, cancel := context.WithCancel(ctx)
	var passing sync.WaitGroup
	passing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				f.interrupted(ctx, n, giveUp, &passing)
			case w := <-f.wishes:
				n = f.wished(ctx, w, n, giveUp, &passing)
			}
		}
	})
	return func() { signal.Stop(signals); cancel(); passing.Wait() }
}

// interrupted does what the n-th interrupt asks for, counted from 0.
func (f *follower) interrupted(ctx context.Context, n int, giveUp context.CancelCauseFunc, passing *sync.WaitGroup) {
	switch {
	case f.watches || f.persist.gone.Load():
		giveUp(errLeft)
	case n == 0 && f.waiting.Load():
		f.warn("removing the run from the queue")
		passing.Go(func() { f.stop(ctx, false) })
	case n == 0:
		f.warn("stopping: waiting for requests in flight; Ctrl-C again cancels them")
		passing.Go(func() { f.stop(ctx, false) })
	case n == 1:
		f.warn("stopping at once: cancelling requests in flight")
		passing.Go(func() { f.stop(ctx, true) })
	default:
		giveUp(errGaveUp)
	}
}

// wished does what a key of the screen asks for, after n interrupts. It returns the number of the interrupt that it
// stands for, so that Ctrl-C continues after it.
func (f *follower) wished(
	ctx context.Context, w terminal.Wish, n int, giveUp context.CancelCauseFunc, passing *sync.WaitGroup,
) int {
	switch {
	case w == terminal.Drain && f.watches, w == terminal.Cancel && f.watches:
		f.warn("stopping the run")
		passing.Go(func() { f.stop(ctx, w == terminal.Cancel) })
		return n - 1
	case w == terminal.Drain:
		n = 0
	case w == terminal.Cancel:
		n = 1
	}
	f.interrupted(ctx, n, giveUp, passing)
	return n
}

// warn shows a warning.
func (f *follower) warn(text string) {
	f.show(terminal.Notice(spatev1.Severity_SEVERITY_WARNING, text))
}

// stop asks the coordinator to end the run.
func (f *follower) stop(ctx context.Context, immediately bool) {
	patience, done := context.WithTimeout(ctx, stopTimeout)
	defer done()
	_, err := f.client.StopRun(patience, &spatev1.StopRunRequest{RunId: f.id, Immediately: immediately})
	if err != nil && ctx.Err() == nil {
		f.show(terminal.Notice(spatev1.Severity_SEVERITY_ERROR, "cannot stop the run: "+status.Convert(err).Message()))
	}
}
