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

	"github.com/spate-load/spate/internal/cli/progress"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Reasons why a run is not followed to its end.
var (
	errGaveUp   = errors.New("interrupted before the coordinator had ended the run")
	errLeft     = errors.New("interrupted: the run continues")
	errLeftGone = errors.New("interrupted while the coordinator was gone")
)

// stopTimeout is how long a coordinator may take to answer StopRun.
const stopTimeout = 5 * time.Second

// passOnSignals stops the run at the first interrupt and cancels requests in flight at the second. The third stops
// waiting, because the coordinator may no longer answer. A follower that only watches a run, or that cannot
// reach its coordinator, leaves the run at the first interrupt. The returned function ends the handling of signals.
func (f *follower) passOnSignals(ctx context.Context, giveUp context.CancelCauseFunc) func() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithCancel(ctx)
	var passing sync.WaitGroup
	passing.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-signals:
				f.interrupted(ctx, n, giveUp, &passing)
			}
		}
	})
	return func() { signal.Stop(signals); cancel(); passing.Wait() }
}

// interrupted does what the n-th interrupt asks for, counted from 0.
func (f *follower) interrupted(ctx context.Context, n int, giveUp context.CancelCauseFunc, passing *sync.WaitGroup) {
	warn := func(text string) { f.view.Show(progress.Notice(spatev1.Severity_SEVERITY_WARNING, text)) }
	switch {
	case f.watches:
		giveUp(errLeft)
	case f.persist.gone.Load():
		giveUp(errLeftGone)
	case n == 0 && f.waiting.Load():
		warn("removing the run from the queue")
		passing.Go(func() { f.stop(ctx, false) })
	case n == 0:
		warn("stopping: waiting for requests in flight; Ctrl-C again cancels them")
		passing.Go(func() { f.stop(ctx, false) })
	case n == 1:
		warn("stopping at once: cancelling requests in flight")
		passing.Go(func() { f.stop(ctx, true) })
	default:
		giveUp(errGaveUp)
	}
}

// stop asks the coordinator to end the run.
func (f *follower) stop(ctx context.Context, immediately bool) {
	patience, done := context.WithTimeout(ctx, stopTimeout)
	defer done()
	_, err := f.client.StopRun(patience, &spatev1.StopRunRequest{RunId: f.id, Immediately: immediately})
	if err != nil && ctx.Err() == nil {
		f.view.Show(progress.Notice(spatev1.Severity_SEVERITY_ERROR, "cannot stop the run: "+
			status.Convert(err).Message()))
	}
}
