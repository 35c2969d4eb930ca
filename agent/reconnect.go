package agent

import (
	"context"
	"math/rand/v2"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Pauses between attempts to connect. With an assignment the pauses are shorter, because its lease is running.
const (
	firstRetry    = 100 * time.Millisecond
	lastRetry     = 5 * time.Second
	lastRetryBusy = time.Second
)

// soundSession is how long a session must last to reset the pause. Otherwise two agents of the same name would keep
// displacing each other without a pause.
const soundSession = 5 * time.Second

// stayConnected holds one session after the other until ctx ends.
func (a *Agent) stayConnected(ctx context.Context) {
	var pause time.Duration
	complaints := complaints{}
	for {
		var since time.Time
		err := a.connect(ctx, func(w *spatev1.Welcome) {
			a.config.Logger.Info("connected", "coordinator", w.GetCoordinator())
			since = time.Now()
		})
		if ctx.Err() != nil {
			return
		}
		if !since.IsZero() && time.Since(since) >= soundSession {
			pause, complaints = 0, nil
		}
		if err != nil && complaints.isNew(err) {
			a.config.Logger.Warn("not connected", "error", err)
		}
		pause = min(max(2*pause, firstRetry), a.lastRetry())
		if !rest(ctx, jitter(pause)) {
			return
		}
	}
}

// lastRetry returns the longest pause for now.
func (a *Agent) lastRetry() time.Duration {
	if a.desk.ref() != nil {
		return lastRetryBusy
	}
	return lastRetry
}

// jitter returns half to all of the pause, at random. It keeps agents that lost the same coordinator from returning all
// at once.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2+1) }

// rest pauses and reports whether ctx is still alive.
func rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
