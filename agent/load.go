package agent

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/agent/recorder"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/timer"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// load is a share under way. It starts requests until its schedule ends or it is stopped, and then drains: requests in flight may
// go on for the drain timeout.
type load struct {
	*share
	start       clock.Instant
	uncertainty time.Duration // of start
	recorder    *recorder.Recorder
	pulse       pulse

	starting     context.Context // ends when nothing more may be started
	stopStarting context.CancelFunc
	running      context.Context // ends when requests in flight are cancelled
	cancel       context.CancelFunc

	startError    time.Duration
	dropped       uint64       // measured arrivals that were due and were not started
	measuredSlots atomic.Int64 // slots that have started a measured request

	mu                   sync.Mutex
	steadyFrom, steadyTo clock.Instant // 0: not yet
	draining             *time.Timer
	failure              string
	failureKind          spatev1.FailureKind
	stopped              bool
}

// newLoad arms a share. emit takes its snapshots.
func newLoad(s *share, start clock.Instant, uncertainty time.Duration, emit func(*spatev1.Snapshot)) *load {
	l := &load{share: s, start: start, uncertainty: uncertainty}
	l.pulse.patience = s.target().GetConnectTimeout().AsDuration()
	l.starting, l.stopStarting = context.WithCancel(context.Background())
	l.running, l.cancel = context.WithCancel(context.Background())
	l.recorder = recorder.New(recorder.Config{
		Start: start, Endpoints: len(s.target().GetEndpoints()), Shards: runtime.GOMAXPROCS(0),
		Records: s.records, Emit: emit, Now: clock.Now,
	})
	return l
}

// run waits for the start, generates the load and emits its snapshots, the last with the totals. It blocks until all is done.
func (l *load) run() {
	sealed := l.seal()
	if l.closed != nil {
		l.runClosed()
	} else {
		l.runOpen()
	}
	l.endDrain()
	sealed()
	l.recorder.Finish(l.totals())
}

// seal emits each window once it is over, until the function it returns is called, which waits for the end of it.
func (l *load) seal() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sleep(ctx, l.recorder.NextSeal()) {
			l.recorder.Seal(clock.Now())
		}
	}()
	return func() { cancel(); <-done }
}

// awaitStart blocks until the armed start and reports whether the load may begin.
func (l *load) awaitStart(t *timer.Timer) bool {
	err := t.Wait(l.start)
	l.startError = clock.Now().Sub(l.start)
	if err != nil && l.starting.Err() == nil {
		l.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "the armed start could not be waited for: "+err.Error())
	}
	return err == nil
}

// observe watches what became of a request.
func (l *load) observe(q *recorder.Request, o *stream.Observation) {
	if l.closed == nil && !q.Unmeasured {
		l.steadySince(o.End)
	}
	if why := l.pulse.observe(o, l.recorder.LastToken); why != "" {
		l.fail(spatev1.FailureKind_FAILURE_KIND_TARGET_DEAD, true, "target "+l.target().GetName()+" is dead: "+why)
	}
}

// steadySince marks the end of the ramp-up, once.
func (l *load) steadySince(at clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.steadyFrom == 0 {
		l.steadyFrom = at
	}
}

// drain marks that nothing more is to be started since an instant, once. What is in flight may go on for the drain timeout.
func (l *load) drain(since clock.Instant) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining != nil {
		return
	}
	l.steadyTo = since
	l.draining = time.AfterFunc(clock.Until(since.Add(l.stage.GetDrainTimeout().AsDuration())), l.cancel)
}

// endDrain frees what drain and stop need.
func (l *load) endDrain() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.draining != nil {
		l.draining.Stop()
	}
	l.stopStarting()
	l.cancel()
}

// stop ends the load on the coordinator's word. It does not wait and may be called at any time; of several reasons for an end the
// first counts, but a stop may become immediate later.
func (l *load) stop(immediately bool) { l.end(immediately, func() { l.stopped = true }) }

// fail ends the load for a reason of the agent's or of the target, and is as stop otherwise.
func (l *load) fail(kind spatev1.FailureKind, immediately bool, failure string) {
	l.end(immediately, func() { l.failure, l.failureKind = failure, kind })
}

// end ends the load before its end, and keeps why if nothing has ended it yet.
func (l *load) end(immediately bool, why func()) {
	l.drain(clock.Now())
	l.mu.Lock()
	if l.starting.Err() == nil {
		why()
	}
	l.stopStarting()
	l.mu.Unlock()
	if immediately {
		l.cancel()
	}
}

// totals are what the recorder cannot know.
func (l *load) totals() *spatev1.Totals {
	l.mu.Lock()
	defer l.mu.Unlock()
	return &spatev1.Totals{
		NeverSent:          l.neverSent(),
		SteadyFromNs:       l.offset(l.steadyFrom),
		SteadyToNs:         l.offset(l.steadyTo),
		StartErrorNs:       l.startError.Nanoseconds(),
		ClockUncertaintyNs: l.uncertainty.Nanoseconds(),
		Failure:            l.failure,
		FailureKind:        l.failureKind,
		Stopped:            l.stopped,
	}
}

// neverSent counts the measured requests that were owed and not started: by the load's number of requests where it has one, else the
// arrivals whose time had come.
func (l *load) neverSent() uint64 {
	if l.counted {
		return l.owed - min(l.recorder.Started(), l.owed)
	}
	return l.dropped
}

// offset is an instant since the start, nil for one that did not come, or came before it.
func (l *load) offset(at clock.Instant) *int64 {
	if at < l.start {
		return nil
	}
	ns := at.Sub(l.start).Nanoseconds()
	return &ns
}

// sleep waits until an instant, without haste, and reports whether ctx still goes on.
func sleep(ctx context.Context, until clock.Instant) bool {
	return rest(ctx, clock.Until(until))
}
