package agent

import (
	"cmp"
	"context"
	"math/rand/v2"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Pauses between attempts to connect.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 5 * time.Second
)

// stayConnected holds one session after the other until ctx ends.
func (a *Agent) stayConnected(ctx context.Context) {
	var pause time.Duration
	var complaint string
	lease := lease{expire: a.desk.expire}
	defer lease.renew()
	for {
		err := a.connect(ctx, func(w *spatev1.Welcome) {
			a.config.Logger.Info("connected", "coordinator", w.GetCoordinator())
			lease.renew()
			lease.length = cmp.Or(max(0, w.GetLease().AsDuration()), defaultLease)
			pause, complaint = 0, ""
		})
		if ctx.Err() != nil {
			return
		}
		lease.run()
		if err != nil && err.Error() != complaint { // each once, until it is well again
			complaint = err.Error()
			a.config.Logger.Warn("not connected", "error", err)
		}
		pause = min(max(2*pause, firstRetry), lastRetry)
		if !rest(ctx, jitter(pause)) {
			return
		}
	}
}

// jitter keeps agents that lost the same coordinator from coming back all at once: half to all of the pause.
func jitter(pause time.Duration) time.Duration { return pause/2 + rand.N(pause/2+1) }

// rest pauses and reports whether ctx still goes on.
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

// lease is how long the agent goes on without its coordinator.
type lease struct {
	length time.Duration // 0: there was no coordinator yet
	expire func(time.Duration)
	timer  *time.Timer // nil: the coordinator is there
}

// run lets the lease run, from the first loss of the connection on.
func (l *lease) run() {
	if l.timer == nil && l.length > 0 {
		length := l.length
		l.timer = time.AfterFunc(length, func() { l.expire(length) })
	}
}

// renew ends the running out of the lease.
func (l *lease) renew() {
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
}
