package executor

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
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
	load := l.Assigned.GetLoad()
	warmsUp := load.GetWarmupRequests() > 0 || load.GetWarmupDuration().AsDuration() > 0 ||
		load.GetWarmupUntilSteady() != nil
	if l.Servers != nil && warmsUp && l.account.ctx.Err() == nil {
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

// totals returns the totals that the recorder does not know.
func (l *Load) totals() *spatev1.Totals {
	neverSent := l.neverSent()
	l.mu.Lock()
	defer l.mu.Unlock()
	return &spatev1.Totals{
		NeverSent:          neverSent,
		UnsentFromNs:       l.unsentFrom(neverSent),
		UnsentAfterFailure: l.orphaned.Load(),
		SteadyFromNs:       l.offset(l.steadyFrom),
		SteadyToNs:         l.offset(l.steadyTo),
		StartErrorNs:       l.startError.Nanoseconds(),
		ClockUncertaintyNs: l.uncertainty.Nanoseconds(),
		Failure:            strings.ToValidUTF8(l.failure[:min(len(l.failure), measure.MaxReason)], ""),
		FailureKind:        l.failureKind,
		Stopped:            l.stopped,
	}
}

// neverSent counts the measured requests that were due and never sent: those of arrivals that were never started, and
// later turns of sessions that broke off. If the stage has measured enough, only requests that a failure prevented
// count.
func (l *Load) neverSent() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.orphaned.Load()
	if l.enough {
		return n
	}
	return n + l.cutOff.Load() + l.neverStarted.requests + l.notStarted()*l.neverStarted.each()
}

// notStarted returns how many of the measured arrivals that the load must start were neither started nor counted in
// neverStarted, or 0 if their number is not known. The caller holds l.mu.
func (l *Load) notStarted() uint64 {
	var required uint64
	switch {
	case l.restUnknown():
		return l.rest
	case !l.Counted:
		return 0
	case l.Closed != nil:
		required = l.Closed.Quota()
	default:
		required, _ = schedule.Quota(l.Assigned.GetLoad(), l.Part)
	}
	return required - min(l.arrivals.Load()+l.neverStarted.arrivals, required)
}

// unsentFrom returns when the first request that was never sent was due, or nil if there is none or it is not known. If
// a load that ends by its time was cut short, there may be such requests that neverSent does not count. The caller
// holds l.mu.
func (l *Load) unsentFrom(neverSent uint64) *int64 {
	if neverSent == 0 && (l.Counted || !l.cutShort) {
		return nil
	}
	return l.neverStarted.from
}

// unstarted are measured arrivals that were never started, and their requests.
type unstarted struct {
	arrivals, requests uint64
	from               *int64 // ns after the start when the first was due, in a closed loop: when its slot was free
}

// noteDue notes when an arrival that was not started was due.
func (u *unstarted) noteDue(at time.Duration) {
	if u.from == nil || at.Nanoseconds() < *u.from {
		u.from = new(at.Nanoseconds())
	}
}

// each returns the average number of requests of an arrival, or 1 if it is not known.
func (u *unstarted) each() uint64 { return max(u.requests/max(u.arrivals, 1), 1) }

// countNeverSent counts an arrival that will never be started, if it is a measured one.
func (l *Load) countNeverSent(a schedule.Arrival) {
	if a.Unmeasured {
		return
	}
	requests := l.turns(a.Index)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.neverStarted.arrivals++
	l.neverStarted.requests += requests
	if l.Closed == nil {
		l.neverStarted.noteDue(a.Offset)
	}
}

// turns returns the number of an arrival's requests. An arrival that cannot be read counts as one request.
func (l *Load) turns(index uint64) uint64 {
	if !l.Sessions {
		return 1
	}
	ask, err := l.Content.Spec(index, 0)
	if err != nil {
		return 1
	}
	return uint64(max(ask.Turns, 1))
}

// walkLimit bounds how many arrivals of an abandoned schedule are read.
const walkLimit = 1 << 20

// countRestNeverSent counts the requests of the sessions left in an abandoned schedule. Beyond walkLimit, sessions are
// assumed to have the average length of those before them: a count of millions must not delay the totals.
func (l *Load) countRestNeverSent(next func() (schedule.Arrival, bool)) {
	for range walkLimit {
		l.mu.Lock()
		must := l.Sessions && !l.enough && (l.notStarted() > 0 || l.restUnknown())
		l.mu.Unlock()
		if !must { // no sessions are left whose requests count
			return
		}
		a, more := next()
		if !more {
			return
		}
		l.countNeverSent(a)
	}
}

// countsRest reports whether arrivals that were not due when the load ended count as never sent, too. This is so if the
// load has a number of arrivals, or if the agent failed: the stage continues, and the agent's part of it is missing,
// although the agent still delivers what it drains. The caller holds l.mu.
func (l *Load) countsRest() bool {
	return l.Counted || l.failureKind == spatev1.FailureKind_FAILURE_KIND_AGENT
}

// restUnknown reports whether only the rest of the schedule tells how many measured arrivals the agent still has. This
// is so for an open loop that ends by its time, whose agents are drawn, or that hands arrivals over by time. The caller
// holds l.mu.
func (l *Load) restUnknown() bool {
	if l.Closed != nil || !l.countsRest() {
		return false
	}
	_, known := schedule.Quota(l.Assigned.GetLoad(), l.Part)
	return !known
}

// offset returns an instant relative to the start, or nil if the instant never came or is before the start.
func (l *Load) offset(at clock.Instant) *int64 {
	if at < l.start {
		return nil
	}
	return new(at.Sub(l.start).Nanoseconds())
}
