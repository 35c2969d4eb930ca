// Package executor generates one agent's load of a stage: it starts the requests of a ready stage at their times, in a
// closed loop or an open loop, and records what becomes of them.
//
// A Load starts requests until its schedule ends or it is stopped, and then drains. Its own goroutines have all ended
// when Run returns.
package executor

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/recorder"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/kernel"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Load is a ready stage under way. It starts requests until its schedule ends or it is stopped, and then drains:
// requests in flight may continue for the drain timeout.
type Load struct {
	*ready.Stage
	start         clock.Instant
	uncertainty   time.Duration // of start
	balance       *balance
	newWatch      func() Watch // nil: requests are not watched
	recorder      *recorder.Recorder
	deadCheck     deadCheck
	hopelessCheck hopelessCheck
	rateCheck     rateCheck
	account       *account

	starting     context.Context // ends when nothing more may be started
	stopStarting context.CancelFunc
	taking       context.Context // ends when no more arrivals may be started
	stopTaking   context.CancelFunc
	running      context.Context // ends when requests in flight are cancelled
	cancel       context.CancelFunc

	fence  atomic.Int64 // instant from which nothing may start, the end of the lease; 0: none
	expire func()       // ends the load at the fence

	revising sync.Mutex    // orders revisions of the stripe and what is sent under it
	revised  func()        // called after each revision; nil: none
	ended    bool          // nothing more can be taken over
	sent     time.Duration // latest offset of the arrivals that an open loop has sent; -1: none

	client   client                              // the stage's; tests in virtual time replace it and the timers
	newTimer func(context.Context) *kernel.Timer // kernel.NewTimer

	alarm atomic.Pointer[kernel.Timer] // on which the open loop waits for what is due; nil: there is none

	startError    time.Duration
	arrivals      atomic.Uint64 // measured arrivals that have started
	orphaned      atomic.Uint64 // measured turns not sent because an earlier turn failed
	cutOff        atomic.Uint64 // measured turns not sent because the load ended
	branches      atomic.Int64  // workers of branches
	canaries      sync.WaitGroup
	canariesAsked atomic.Int64 // in flight
	measuredSlots atomic.Int64 // slots that have started a measured request

	mu                   sync.Mutex
	measuring            bool          // the closed loop has handed out a measured arrival
	steadyFrom, steadyTo clock.Instant // 0: not yet
	latest               clock.Instant // latest coming turn of a session
	deadline             clock.Instant // when requests in flight are cancelled
	draining             *time.Timer
	closing              *time.Timer   // begins to drain at the end of the closed loop's time
	timeEnd              time.Duration // the end of the closed loop's time, as far as known
	measuredFrom         *int64        // offset from which a warm-up until steady has ended; nil: it has not
	failure              string
	failureKind          spatev1.FailureKind
	stopped              bool
	enough               bool
	leaving              bool
	cutShort             bool // stopped, or failed, before it had ended
	neverStarted         unstarted
	rest                 uint64 // measured arrivals left in an open loop's schedule, if restUnknown
}

// client is what a load needs of the stage's *stream.Client.
type client interface {
	Do(ctx context.Context, r stream.Request, o *stream.Observation)
	Preconnect(ctx context.Context, endpoint int) error
}

// Config is what a load needs besides its stage.
type Config struct {
	// Start is when the stage starts, on this machine's clock. Uncertainty is the largest error of Start.
	Start       clock.Instant
	Uncertainty time.Duration
	// MaxRate is the number of requests in a whole second beyond which the load ends. 0: no limit.
	MaxRate float64
	// NewWatch returns a watch for one worker. Nil: requests are not watched.
	NewWatch func() Watch
	// Emit takes the load's snapshots in order, the last one with the totals. It must not block for long.
	Emit func(*spatev1.Snapshot)
	// Expire ends the load when it finds that its lease has ended. Nil: the load has no fence.
	Expire func()
	// RequestHeartbeat requests a heartbeat now, by which the coordinator learns that the load waits for the loads of
	// the other agents. Nil: none is requested.
	RequestHeartbeat func()
}

// New returns an armed load of a ready stage.
func New(s *ready.Stage, c Config) *Load {
	l := &Load{Stage: s, start: c.Start, uncertainty: c.Uncertainty, balance: newBalance(s.Assigned, s.Content),
		account: newAccount(c.RequestHeartbeat), newWatch: c.NewWatch, expire: c.Expire, sent: -1,
		client: s.Client, newTimer: kernel.NewTimer}
	l.rateCheck.max = c.MaxRate
	l.deadCheck.minTime = s.Target().GetConnectTimeout().AsDuration()
	if _, joined := s.Part.Joined(); joined || !s.Assigned.GetFailFast() {
		l.hopelessCheck.disable() // an agent that joins mid-stage may first see a short outage
	}
	l.starting, l.stopStarting = context.WithCancel(context.Background())
	l.taking, l.stopTaking = context.WithCancel(l.starting)
	l.running, l.cancel = context.WithCancel(context.Background())
	l.recorder = recorder.New(recorder.Config{
		Start: c.Start, Endpoints: len(s.Target().GetEndpoints()),
		Parts: len(s.Assigned.GetWorkload().GetMix().GetParts()), Shards: runtime.GOMAXPROCS(0),
		SLOs: recorder.SLOsOf(content.SLOs(s.Assigned)), Records: s.Records, Emit: l.emitter(c.Emit), Yield: l.yield,
		Now: clock.Now, Joined: uint32(max(clock.Now().Sub(l.start), 0) / recorder.Length), Sessions: s.Sessions,
	})
	return l
}

// emitter returns the function that takes snapshots from the recorder. It adds the arrivals that a closed loop has
// started so far, from when on the load measures, the server samples of the window to its first snapshot, and the
// server accounts to the totals.
func (l *Load) emitter(emit func(*spatev1.Snapshot)) func(*spatev1.Snapshot) {
	return func(s *spatev1.Snapshot) {
		if l.Closed != nil {
			s.StartedItems, s.Left = l.Closed.Started()
		}
		l.mu.Lock()
		if l.arrivals.Load() > 0 || s.GetTotals() != nil && !l.stopped && l.failure == "" {
			s.MeasuredFromNs = l.measuredFrom
		}
		l.mu.Unlock()
		if l.Servers != nil {
			s.ServerSamples = l.Servers.TakeSamples(s.GetWindow())
		}
		if s.GetTotals() != nil {
			s.ServerAccounts = l.account.result
		}
		emit(s)
	}
}

// Run waits for the start, generates the load and emits its snapshots, the last one with the totals. It blocks until
// everything has ended, and with servers to read until the load of all other agents has ended, too.
func (l *Load) Run() {
	sealed, read := l.seal(), l.readServers()
	if l.Closed != nil {
		l.runClosed()
	} else {
		l.runOpen()
	}
	l.canaries.Wait()
	l.endDrain()
	read()
	sealed()
	l.recorder.Finish(l.totals())
}

// seal emits each window once it is over. The returned function stops this and waits until it has stopped.
func (l *Load) seal() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for clock.SleepUntil(ctx, l.recorder.NextSeal()) {
			l.recorder.Seal(clock.Now())
		}
	}()
	return func() { cancel(); <-done }
}

// yield lets a due start and other runnable goroutines go before the calling goroutine, which has worked for a while:
// a worker that was told to start waits only for its turn on a core.
func (l *Load) yield() {
	if t := l.alarm.Load(); t != nil {
		t.Notice(clock.Now())
		runtime.Gosched()
	}
}

// awaitStart blocks until the armed start, or until a joined agent's first arrivals, and reports whether the load may
// start. Its lateness is the start error. It calls revised for each revision of the stripe that comes meanwhile.
func (l *Load) awaitStart(t *kernel.Timer, revised func()) bool {
	at := l.begins()
	err := t.WaitExactly(at)
	for errors.Is(err, kernel.ErrWoken) {
		revised()
		at = l.begins()
		err = t.WaitExactly(at)
	}
	if err == nil || at < never {
		l.startError = clock.Now().Sub(at)
	}
	if err != nil && l.starting.Err() == nil {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "waiting for the armed start failed: "+err.Error())
	}
	return err == nil
}

// never is when a stage starts on an agent that has no arrivals yet.
const never = clock.Instant(math.MaxInt64)

// begins returns when the stage starts on this agent.
func (l *Load) begins() clock.Instant {
	l.revising.Lock()
	defer l.revising.Unlock()
	from, joined := l.Part.Joined()
	switch {
	case !joined:
		return l.start
	case from == math.MaxInt64:
		return never
	default:
		return l.start.Add(from)
	}
}

// observe looks at how a request ended. first: it is one of the load's first requests.
func (l *Load) observe(o *stream.Observation, first bool) {
	if why := l.deadCheck.observe(o, l.recorder.LastToken); why != "" {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, true, "target "+l.Target().GetName()+" is dead: "+why)
	}
	if !first {
		return
	}
	if why := l.hopelessCheck.ended(o); why != "" {
		l.Fail(spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, true, reason.HopelessTarget(l.Target().GetName(), why))
	}
}

// mostCanaries is how many canaries of an agent may be in flight.
const mostCanaries = 256

// sendCanary sends a canary beside a measured request, if one is due. It does not block.
func (l *Load) sendCanary(q *recorder.Request, shard *recorder.Shard) {
	number, due := l.Canaries.Due(q.Endpoint, q.Index, q.Turn)
	if !due || q.Unmeasured || l.canariesAsked.Load() >= mostCanaries {
		return
	}
	l.canariesAsked.Add(1)
	l.countInSecond(clock.Now())
	const apart = 1 << 55 // from the requests' own IDs
	part, endpoint, id := q.Part, q.Endpoint, l.IDs.String(q.Index|apart, q.Turn)
	l.canaries.Go(func() {
		defer l.canariesAsked.Add(-1)
		shard.RecordCanary(part, endpoint, l.Canaries.Ask(l.running, l.client, endpoint, number, id))
	})
}

// Measure sets the offset from the start at which measuring begins, or moves it, unless a request that the change would
// affect has started. It returns the offset from which the load measures, nil if there is none: the load has another
// kind of warm-up, or the offset comes too late. Behind by it is always too late; nil: there is no such limit. Measure
// may be called at any time from any goroutine.
func (l *Load) Measure(from time.Duration, by *int64) *int64 {
	l.revising.Lock()
	defer l.revising.Unlock()
	l.mu.Lock()
	old := l.measuredFrom
	l.mu.Unlock()
	late := by != nil && clock.Now().Sub(l.start) > time.Duration(*by)
	if late && old == nil || l.settled(from, old) {
		return old
	}
	measure := l.measureOpen
	if l.Closed != nil {
		measure = l.Closed.Measure
	}
	at, measures := measure(from)
	if !measures {
		return nil
	}
	if old == nil || *old != at.Nanoseconds() {
		l.mu.Lock()
		l.measuredFrom, l.timeEnd = new(at.Nanoseconds()), 0
		l.mu.Unlock()
		if old != nil && l.Closed == nil && l.revised != nil {
			l.revised()
		}
	}
	if late && at == from {
		return nil // moved, because the old offset counts no more
	}
	return new(at.Nanoseconds())
}

// settled reports whether it is too late to change the start of measuring from old, which may be nil, to another: the
// load has ended, or an open loop has started a request that the change would affect. The caller holds l.revising.
func (l *Load) settled(from time.Duration, old *int64) bool {
	if l.ended || l.starting.Err() != nil {
		return true
	}
	return l.Closed == nil && (from <= l.sent || old != nil && time.Duration(*old) <= l.sent)
}

// measureOpen calls Measure of both schedules of an open loop.
func (l *Load) measureOpen(from time.Duration) (at time.Duration, measures bool) {
	l.Scout.Measure(from)
	return l.Open.Measure(from)
}

// SetFence sets the instant from which nothing may start.
func (l *Load) SetFence(at clock.Instant) { l.fence.Store(int64(at)) }

// InFlight returns the number of requests in flight.
func (l *Load) InFlight() uint32 { return l.recorder.InFlight() }

// mayStart reports whether a request may start now, and ends the load if not. A timer at the fence is not enough: a
// process that was suspended would send its backlog before its timers fire, when another agent already owns that
// backlog.
func (l *Load) mayStart() bool {
	if fence := clock.Instant(l.fence.Load()); fence == 0 || clock.Now() < fence {
		return true
	}
	l.expire()
	return false
}
