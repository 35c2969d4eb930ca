package agent

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/recorder"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/timer"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// load is a ready stage under way. It starts requests until its schedule ends or it is stopped, and then drains:
// requests in flight may continue for the drain timeout.
type load struct {
	*readyStage
	start         clock.Instant
	uncertainty   time.Duration // of start
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

	revising sync.Mutex // orders revisions of the stripe and what is sent under it
	revised  func()     // called after each revision; nil: nobody listens
	ended    bool       // nothing more can be taken over

	alarm atomic.Pointer[timer.Timer] // on which the open loop waits for what is due; nil: there is none

	startError    time.Duration
	arrivals      atomic.Uint64 // measured arrivals that have started
	orphaned      atomic.Uint64 // measured turns not sent because an earlier turn failed
	cutOff        atomic.Uint64 // measured turns not sent because the load ended
	measuredSlots atomic.Int64  // slots that have started a measured request

	mu                   sync.Mutex
	measuring            bool          // the closed loop has handed out a measured arrival
	steadyFrom, steadyTo clock.Instant // 0: not yet
	latest               clock.Instant // latest coming turn of a session
	deadline             clock.Instant // when requests in flight are cancelled
	draining             *time.Timer
	closing              *time.Timer   // begins to drain at the end of the closed loop's time
	timeEnd              time.Duration // the end of the closed loop's time, as far as known
	failure              string
	failureKind          spatev1.FailureKind
	stopped              bool
	enough               bool
	neverStarted         unstarted   // measured arrivals that were never started
	firstUnsent          firstUnsent // the first of neverStarted that was due
	rest                 uint64      // measured arrivals left in an open loop's schedule, if restUnknown
}

// newLoad returns an armed load of a ready stage. emit takes its snapshots.
func newLoad(s *readyStage, start clock.Instant, uncertainty time.Duration, emit func(*spatev1.Snapshot)) *load {
	l := &load{readyStage: s, start: start, uncertainty: uncertainty, account: newAccount()}
	l.deadCheck.minTime = s.target().GetConnectTimeout().AsDuration()
	if _, joined := s.part.Joined(); joined || !s.stage.GetFailFast() {
		l.hopelessCheck.disable() // an agent that joins mid-stage may first see a short outage
	}
	l.starting, l.stopStarting = context.WithCancel(context.Background())
	l.taking, l.stopTaking = context.WithCancel(l.starting)
	l.running, l.cancel = context.WithCancel(context.Background())
	l.recorder = recorder.New(recorder.Config{
		Start: start, Endpoints: len(s.target().GetEndpoints()), Shards: runtime.GOMAXPROCS(0),
		SLO: recorder.SLOOf(s.stage.GetSlo()), Records: s.records, Emit: l.emitter(emit), Yield: l.yield,
		Now: clock.Now, Joined: l.joinedIn(clock.Now()),
	})
	return l
}

// emitter returns the function that takes snapshots from the recorder. It adds the arrivals that a closed loop has
// started so far, the server samples of the window to its first snapshot, and the server accounts to the totals.
func (l *load) emitter(emit func(*spatev1.Snapshot)) func(*spatev1.Snapshot) {
	return func(s *spatev1.Snapshot) {
		if l.closed != nil {
			s.BegunItems = l.closed.Begun()
		}
		if l.servers != nil {
			s.ServerSamples = l.servers.TakeSamples(s.GetWindow())
		}
		if s.GetTotals() != nil {
			s.ServerAccounts = l.account.result
		}
		emit(s)
	}
}

// joinedIn returns the window in which an agent is armed mid-stage, or 0 if it is armed before the start.
func (l *load) joinedIn(now clock.Instant) uint32 {
	if now < l.start {
		return 0
	}
	return uint32(now.Sub(l.start) / recorder.Length)
}

// run waits for the start, generates the load and emits its snapshots, the last one with the totals. It blocks until
// everything has ended, and with servers to read until the load of all other agents has ended, too.
func (l *load) run() {
	sealed, read := l.seal(), l.readServers()
	if l.closed != nil {
		l.runClosed()
	} else {
		l.runOpen()
	}
	l.endDrain()
	read()
	sealed()
	l.recorder.Finish(l.totals())
}

// seal emits each window once it is over. The returned function stops this and waits until it has stopped.
func (l *load) seal() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleepUntil(ctx, l.recorder.NextSeal()) {
			l.recorder.Seal(clock.Now())
		}
	}()
	return func() { cancel(); <-done }
}

// yield lets a due start and other runnable goroutines go before the calling goroutine, which has worked for a while:
// a worker that was told to start waits only for its turn on a core.
func (l *load) yield() {
	if t := l.alarm.Load(); t != nil {
		t.Notice(clock.Now())
		runtime.Gosched()
	}
}

// awaitStart blocks until the armed start, or until a joined agent's first arrivals, and reports whether the load may
// start. Its lateness is the start error. It calls revised for each revision of the stripe that comes meanwhile.
func (l *load) awaitStart(t *timer.Timer, revised func()) bool {
	at := l.begins()
	err := t.WaitExactly(at)
	for errors.Is(err, timer.ErrWoken) {
		revised()
		at = l.begins()
		err = t.WaitExactly(at)
	}
	if err == nil || at < never {
		l.startError = clock.Now().Sub(at)
	}
	if err != nil && l.starting.Err() == nil {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "waiting for the armed start failed: "+err.Error())
	}
	return err == nil
}

// never is when a stage starts on an agent that has no arrivals yet.
const never = clock.Instant(math.MaxInt64)

// begins returns when the stage starts on this agent.
func (l *load) begins() clock.Instant {
	l.revising.Lock()
	defer l.revising.Unlock()
	from, joined := l.part.Joined()
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
func (l *load) observe(o *stream.Observation, first bool) {
	if why := l.deadCheck.observe(o, l.recorder.LastToken); why != "" {
		l.fail(spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, true, "target "+l.target().GetName()+" is dead: "+why)
	}
	if !first {
		return
	}
	if why := l.hopelessCheck.ended(o); why != "" {
		l.fail(spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, true, reason.Hopeless(l.target().GetName(), why))
	}
}

// arrivalStarted counts an arrival whose first request starts.
func (l *load) arrivalStarted(q *recorder.Request) {
	if !q.Unmeasured && l.arrivals.Add(1) == 1 {
		l.rereadServers()
	}
}

// arrivalEnded notes the end of an arrival's last request.
func (l *load) arrivalEnded(q *recorder.Request, end clock.Instant) {
	if l.closed == nil && !q.Unmeasured {
		l.steadySince(end)
	}
}

// measure sets the offset from the start at which measuring begins. Only the first call counts, and a load with its own
// warm-up ignores it. It may be called at any time.
func (l *load) measure(from time.Duration) {
	if l.closed != nil {
		l.closed.Measure(from)
		return
	}
	l.open.Measure(from)
	l.scout.Measure(from)
}

// sleepUntil waits until an instant, at low precision, and reports whether ctx is still alive.
func sleepUntil(ctx context.Context, until clock.Instant) bool {
	return sleepFor(ctx, clock.Until(until))
}
