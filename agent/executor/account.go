package executor

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// account reads the counters of the servers that were assigned to this agent: before the load's first request, at the
// end of a warm-up, and when the last request of all agents has ended. The zero value is for a load that reads no
// servers.
type account struct {
	ctx              context.Context // of all readings but the last
	cancel           context.CancelFunc
	readings         sync.WaitGroup
	waiting          atomic.Bool   // the load has ended and waits for the loads of the other agents
	othersEnded      chan struct{} // closed when the wait is over
	end              sync.Once     // closes othersEnded
	requestHeartbeat func()        // requests a heartbeat now; nil: none is requested
	result           []*spatev1.ServerAccount
}

const (
	// askFirst is the first pause before the agent asks again whether all loads have ended; the pause doubles up to
	// askOthers. Agents usually end together, and the coordinator answers at once.
	askFirst  = 10 * time.Millisecond
	askOthers = 200 * time.Millisecond
	// waitOthers is how much longer than the drain timeout the agent waits for the other loads. All loads of a stage
	// end within the drain timeout of each other, unless they end by requests and one agent's are much slower.
	waitOthers = 10 * time.Second
	// lastReading bounds the duration of the last readings.
	lastReading = 3 * time.Second
)

// newAccount returns a load's account before its first reading.
func newAccount(requestHeartbeat func()) *account {
	ctx, cancel := context.WithCancel(context.Background())
	return &account{ctx: ctx, cancel: cancel, othersEnded: make(chan struct{}), requestHeartbeat: requestHeartbeat}
}

// warmsUp reports whether a load's first requests are not measured.
func warmsUp(l *spatev1.LoadPoint) bool {
	return l.GetWarmupRequests() > 0 || l.GetWarmupDuration().AsDuration() > 0 || l.GetWarmupUntilSteady() != nil
}

// readServers starts to read servers' metrics before the first request. The returned function blocks until the load of
// all agents has ended, and then takes the last readings.
func (l *Load) readServers() (end func()) {
	if l.Servers == nil {
		return func() {}
	}
	l.account.readings.Go(func() { l.Servers.ReadBaseline(l.account.ctx) })
	l.account.readings.Go(func() { l.Servers.Run(l.account.ctx, l.start, 0) })
	return func() {
		noAccount := func() bool { return l.failed() || l.leaves() } // of the whole stage
		skip := noAccount()
		if !skip {
			l.awaitOthers()
		}
		l.account.cancel()
		l.account.readings.Wait()
		if skip || noAccount() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lastReading)
		defer cancel()
		l.account.result = l.Servers.Accounts(ctx, l.start)
	}
}

// failed reports whether the load ended with a failure. Such a load does not wait for other agents.
func (l *Load) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure != ""
}

// rereadServers reads the servers again at the first measured request, so that the account excludes the warm-up,
// except for requests in flight at that time. It does not block. It is called once.
func (l *Load) rereadServers() {
	if l.Servers != nil && warmsUp(l.Assigned.GetLoad()) && l.account.ctx.Err() == nil {
		l.account.readings.Go(func() { l.Servers.ReadBaseline(l.account.ctx) })
	}
}

// awaitOthers blocks until the coordinator says that the load of all agents has ended, the load is stopped, or the wait
// times out.
func (l *Load) awaitOthers() {
	l.account.waiting.Store(true)
	defer l.account.waiting.Store(false)
	timeout := time.NewTimer(l.drainTimeout() + waitOthers)
	defer timeout.Stop()
	for pause := askFirst; ; pause = min(2*pause, askOthers) {
		if l.account.requestHeartbeat != nil {
			l.account.requestHeartbeat()
		}
		select {
		case <-l.account.othersEnded:
			return
		case <-timeout.C:
			return
		case <-time.After(pause):
		}
	}
}

// AwaitsOthers reports whether the load has ended and waits for the loads of the other agents.
func (l *Load) AwaitsOthers() bool { return l.account.waiting.Load() }

// EndWait ends the wait for the other agents, if there is one.
func (l *Load) EndWait() {
	if l.account.waiting.Load() {
		l.account.end.Do(func() { close(l.account.othersEnded) })
	}
}
