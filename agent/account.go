package agent

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// account is how a load reads the counters of servers that fell to its agent: before its first request, at the end of a
// warm-up, and when the last request of all agents has ended. Its zero value is of a load that reads none.
type account struct {
	ctx      context.Context // of the readings before the last
	cancel   context.CancelFunc
	readings sync.WaitGroup
	warm     sync.Once     // the reading at the end of the warm-up
	waiting  atomic.Bool   // the load has ended, and waits for those of the other agents
	over     chan struct{} // closed when it waits no more
	end      sync.Once     // closes it
	hurry    func()        // asks for a heartbeat now; nil: there is no session
	result   []*spatev1.ServerAccount
}

const (
	// askFirst is how soon an agent asks again whether the load of all has ended, and askOthers how often in the end:
	// agents end together as a rule. The coordinator answers at once.
	askFirst  = 10 * time.Millisecond
	askOthers = 200 * time.Millisecond
	// waitOthers is how much longer than the drain timeout it waits for that. All loads of a stage end within that time
	// of each other, unless they end by requests and one agent's are much slower.
	waitOthers = 10 * time.Second
	// lastReading bounds the time of the last readings.
	lastReading = 3 * time.Second
)

// newAccount is the account of a load before its first reading.
func newAccount() *account {
	ctx, cancel := context.WithCancel(context.Background())
	return &account{ctx: ctx, cancel: cancel, over: make(chan struct{})}
}

// warmsUp reports whether a load's first requests are not measured.
func warmsUp(l *spatev1.LoadPoint) bool {
	return l.GetWarmupRequests() > 0 || l.GetWarmupDuration().AsDuration() > 0 || l.GetWarmupUntilSteady() != nil
}

// readServers starts to read servers' metrics, before the first request. The function that it returns takes the last
// readings, once the load of all agents has ended, and blocks until then.
func (l *load) readServers() (end func()) {
	if l.servers == nil {
		return func() {}
	}
	l.account.readings.Go(func() { l.servers.Begin(l.account.ctx) })
	if plans.ReadsEachSecond(l.target()) {
		l.account.readings.Go(func() { l.servers.Run(l.account.ctx, l.start, 0) })
	}
	return func() {
		failed := l.failed()
		if !failed {
			l.awaitOthers()
		}
		l.account.cancel()
		l.account.readings.Wait()
		if failed || l.failed() {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lastReading)
		defer cancel()
		l.account.result = l.servers.Accounts(ctx, l.start)
	}
}

// failed reports whether the load has ended for a failure: nobody is to wait for it then.
func (l *load) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failure != ""
}

// measuringBegan reads the servers again at the first measured request, so that the account leaves out the warm-up but
// for what is in flight. It does not block.
func (l *load) measuringBegan() {
	if l.servers == nil || !warmsUp(l.stage.GetLoad()) {
		return
	}
	l.account.warm.Do(func() {
		if l.account.ctx.Err() == nil {
			l.account.readings.Go(func() { l.servers.Begin(l.account.ctx) })
		}
	})
}

// awaitOthers blocks until the load of all agents has ended, as the coordinator says, or nothing is to be waited for
// any more.
func (l *load) awaitOthers() {
	l.account.waiting.Store(true)
	defer l.account.waiting.Store(false)
	patience := time.NewTimer(l.drainTimeout() + waitOthers)
	defer patience.Stop()
	for pause := askFirst; ; pause = min(2*pause, askOthers) {
		if l.account.hurry != nil {
			l.account.hurry()
		}
		select {
		case <-l.account.over:
			return
		case <-patience.C:
			return
		case <-time.After(pause):
		}
	}
}

// waitNoMore ends the wait for the other agents, if the load waits.
func (l *load) waitNoMore() {
	if l.account.waiting.Load() {
		l.account.end.Do(func() { close(l.account.over) })
	}
}

// endedRef names the assignment whose load has ended and waits for those of the other agents, nil if none does.
func (d *desk) endedRef() *spatev1.AssignmentRef {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := d.current; a != nil && a.load != nil && a.load.account.waiting.Load() {
		return proto.CloneOf(a.ref)
	}
	return nil
}

// allEnded takes in that the load of all agents has ended.
func (d *desk) allEnded() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != nil && d.current.load != nil {
		d.current.load.waitNoMore()
	}
}

// hurry asks the session for a heartbeat now.
func (d *desk) hurry() {
	select {
	case d.beat <- struct{}{}:
	default: // it is asked already, or there is no session
	}
}
