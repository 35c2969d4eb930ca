package runcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/cli/terminal"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Pauses before a call is retried. Each is twice the previous one. A call that lasted long starts again with the first.
const (
	firstPause = 200 * time.Millisecond
	lastPause  = 2 * time.Second
	lastedLong = 10 * time.Second
)

// errPatience says why a coordinator is no longer waited for.
var errPatience = errors.New("the coordinator did not come back")

// persistence retries calls to a coordinator that break while the coordinator is gone or restarts. The zero value
// retries nothing.
type persistence struct {
	// patience is how long the coordinator may be gone. 0: a broken call is not retried.
	patience time.Duration
	// awake blocks until the coordinator answers anything, or ctx ends.
	awake func(ctx context.Context) error
	// say shows an event to the user.
	say func(*spatev1.RunEvent)
	// gone is true while waiting for the coordinator.
	gone atomic.Bool
}

// do calls, and retries after each break until the call ends in another way. The error is the call's, or errPatience
// with the error of the last break.
func (p *persistence) do(ctx context.Context, call func(ctx context.Context) error) error {
	var since time.Time // the first of consecutive breaks
	pause := firstPause
	for {
		began := time.Now()
		err := call(ctx)
		if p.patience <= 0 || !isBreak(err) || ctx.Err() != nil {
			return err
		}
		if since.IsZero() || time.Since(began) >= lastedLong {
			since, pause = time.Now(), firstPause
		}
		if err := p.wait(ctx, since, &pause, err); err != nil {
			return err
		}
	}
}

// wait reports that the coordinator is gone, and blocks until it is back.
func (p *persistence) wait(ctx context.Context, since time.Time, pause *time.Duration, broken error) error {
	p.gone.Store(true)
	defer p.gone.Store(false)
	why, _, _ := strings.Cut(reason.Of(broken), "; ") // without advice: it may be restarting right now
	p.say(terminal.Notice(spatev1.Severity_SEVERITY_WARNING,
		fmt.Sprintf("coordinator gone (%s): retrying for %s; agents continue and keep what they measure",
			why, words.Span(p.patience.Seconds()))))
	ctx, cancel := context.WithDeadlineCause(ctx, since.Add(p.patience), errPatience)
	defer cancel()
	for {
		select {
		case <-time.After(*pause):
			*pause = min(lastPause, 2**pause)
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), broken)
		}
		if err := p.awake(ctx); !isBreak(err) && ctx.Err() == nil {
			p.say(terminal.Notice(spatev1.Severity_SEVERITY_WARNING, "coordinator back"))
			return nil
		}
	}
}

// isBreak reports whether a call ended for lack of a connection, or of a coordinator behind it, and not by an answer.
func isBreak(err error) bool {
	return slices.Contains([]codes.Code{codes.Unavailable, codes.Canceled, codes.DeadlineExceeded}, status.Code(err))
}
