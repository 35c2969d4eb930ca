package agent

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Pauses between attempts to connect. With an assignment the pauses are shorter, because its lease is running.
const (
	minRetryPause     = 100 * time.Millisecond
	maxRetryPause     = 5 * time.Second
	maxRetryPauseBusy = time.Second
)

// stableSession is how long a session must last to reset the pause. Otherwise two agents of the same name would keep
// displacing each other without a pause.
const stableSession = 5 * time.Second

// stayConnected holds one session after the other until ctx ends.
func (a *Agent) stayConnected(ctx context.Context) {
	var pause time.Duration
	logged := loggedReasons{}
	for {
		var since time.Time
		err := a.connect(ctx, func(w *spatev1.Welcome) {
			a.config.Logger.Info("connected", "coordinator", w.GetCoordinator())
			since = time.Now()
		})
		if ctx.Err() != nil {
			return
		}
		if !since.IsZero() && time.Since(since) >= stableSession {
			pause, logged = 0, nil
		}
		if err != nil && logged.isNew(err) {
			a.config.Logger.Warn("not connected", "error", err)
		}
		pause = min(max(2*pause, minRetryPause), a.longestPause())
		if !clock.Sleep(ctx, jitter(pause)) {
			return
		}
	}
}

// longestPause returns the longest pause for now.
func (a *Agent) longestPause() time.Duration {
	if a.supervisor.Ref() != nil {
		return maxRetryPauseBusy
	}
	return maxRetryPause
}

// jitter returns half to all of the pause, at random. It keeps agents that lost the same coordinator from returning all
// at once.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2+1) }
