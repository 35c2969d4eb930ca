package executor

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/recorder"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/workload"
)

// play sends the prepared request, and then the later turns of its session. It blocks until the last response has
// ended. A session continues beyond the schedule's end. Only a failed turn, a stop or the drain timeout cuts it off.
func (w *worker) play(scheduled clock.Instant) {
	turns := w.ask.Turns
	if !w.request.Unmeasured && w.load.arrivals.Add(1) == 1 {
		w.load.rereadServers()
	}
	var went recorder.Session
	if w.ask.Branches {
		went = w.playBranches(scheduled)
	} else {
		went = w.playTurns(scheduled, turns)
	}
	if went.Part = w.request.Part; !w.request.Single && !w.request.Unmeasured {
		w.shard.RecordSession(went)
	}
	if w.load.Closed == nil && !w.request.Unmeasured {
		w.load.steadySince(w.observation.End)
	}
}

// playTurns sends the turns of a session one after another, and returns how it went.
func (w *worker) playTurns(start clock.Instant, turns int) recorder.Session {
	w.send(start)
	o := &w.observation
	went := recorder.Session{Endpoint: w.request.Endpoint, Start: o.Start, Critical: o.End.Sub(o.Start)}
	turn := 1
	for ; turn < turns; turn++ {
		next, ok := w.nextTurn(turn, start)
		if !ok {
			w.countUnsentTurns(turns - turn)
			break
		}
		w.send(next)
		went.Critical += o.End.Sub(o.Start)
	}
	went.End, went.Completed = o.End, turn == turns && o.Err == nil && !o.Cancelled
	return went
}

// nextTurn prepares a turn and waits for its time, the pause after the previous turn. It reports whether the turn must
// be sent.
func (w *worker) nextTurn(turn int, start clock.Instant) (scheduled clock.Instant, ok bool) {
	o := &w.observation
	if o.Err != nil || o.Cancelled {
		return 0, false
	}
	if w.load.KeepsAnswers { // in the history, in memory that earlier sessions used
		n := len(w.answers)
		w.answers = slices.Grow(w.answers, 1)[:n+1]
		w.answers[n] = append(w.answers[n][:0], o.Answer...)
		w.histories = append(w.histories, w.history())
	}
	return w.await(turn, start, o.End)
}

// await prepares a turn of a session that started at an instant, and waits until it is due. ready is when everything
// that it waits for had ended. It reports whether the turn must be sent.
func (w *worker) await(turn int, start, ready clock.Instant) (scheduled clock.Instant, ok bool) {
	if !w.prepareTurn(turn) {
		return 0, false
	}
	scheduled = max(ready.Add(w.ask.Pause), start.Add(w.ask.NotBefore))
	w.load.expectTurn(scheduled)
	return scheduled, w.wait(w.load.starting, scheduled) && w.load.mayStart()
}

// countUnsentTurns counts turns that are not sent. After a failed turn the history would be wrong; otherwise the end of
// the load cut the turns off.
func (w *worker) countUnsentTurns(turns int) {
	switch {
	case w.request.Unmeasured:
	case w.observation.Err != nil:
		w.load.orphaned.Add(uint64(turns))
	default:
		w.load.cutOff.Add(uint64(turns))
	}
}

// branching is a session whose requests branch, while it is played. Each request runs on the goroutine of the one that
// it waited for last, or on one of its own. All have ended when playBranches returns.
type branching struct {
	owner   *worker
	request recorder.Request // what all requests of the session have in common
	waits   [][]int
	next    [][]int // by turn: those that wait for it
	start   clock.Instant
	running sync.WaitGroup

	mu        sync.Mutex
	answers   [][]byte        // by turn, if the history has them
	histories []history       // by turn
	left      []int           // by turn: how many that it waits for have not ended
	ready     []clock.Instant // by turn: the last end of those that it waits for
	// critical is, by turn, the time in requests on the critical path up to the turn's start: through the request that
	// ended last of those that it waits for, and so on.
	critical []time.Duration
	sent     []bool
	failed   []bool
	whole    recorder.Session // so far
	err      *stream.Error    // of the first request that failed; nil: none has
}

// playBranches sends the prepared request and the later ones of its session, each when those that it waits for have
// ended. What waits for a request that failed is not sent; other branches continue. It returns how the session went.
func (w *worker) playBranches(start clock.Instant) recorder.Session {
	brancher, _ := w.load.Content.(workload.Brancher)
	waits, err := brancher.Waits(w.request.Index)
	if err != nil {
		w.failLoad(err)
		w.countUnsentTurns(w.ask.Turns)
		w.observation.End = clock.Now()
		return recorder.Session{Endpoint: w.request.Endpoint, End: w.observation.End}
	}
	n := len(waits)
	b := &branching{owner: w, waits: waits, next: make([][]int, n), start: start, answers: make([][]byte, n),
		histories: make([]history, n),
		left:      make([]int, n), ready: make([]clock.Instant, n), sent: make([]bool, n), failed: make([]bool, n),
		critical: make([]time.Duration, n), whole: recorder.Session{Endpoint: w.request.Endpoint, Completed: true},
		request: recorder.Request{Index: w.request.Index, Unmeasured: w.request.Unmeasured,
			Endpoint: w.request.Endpoint}}
	w.answers, w.histories = b.answers, b.histories
	for turn, of := range waits {
		b.left[turn], b.ready[turn] = len(of), start
		for _, other := range of {
			b.next[other] = append(b.next[other], turn)
		}
	}
	for turn := 1; turn < n; turn++ {
		if b.left[turn] == 0 {
			b.fork(turn)
		}
	}
	b.run(w, 0, start)
	b.running.Wait()
	w.answers, w.histories = nil, nil
	b.countUnsent()
	w.observation.End, w.observation.Err = b.whole.End, b.err
	b.whole.Completed = b.whole.Completed && !slices.Contains(b.sent, false)
	return b.whole
}

// fork runs a turn that is ready on a goroutine of its own.
func (b *branching) fork(turn int) {
	w := b.take()
	b.running.Go(func() {
		if scheduled, ok := w.await(turn, b.start, b.readyAt(turn)); ok {
			b.run(w, turn, scheduled)
		}
		b.give(w)
	})
}

// run sends the prepared turn, and then what waited for it alone or for it last: one on the same worker, the others on
// their own.
func (b *branching) run(w *worker, turn int, scheduled clock.Instant) {
	for ok := true; ok; {
		w.send(scheduled)
		next := b.ended(w, turn)
		if len(next) == 0 {
			return
		}
		for _, other := range next[1:] {
			b.fork(other)
		}
		turn = next[0]
		scheduled, ok = w.await(turn, b.start, b.readyAt(turn))
	}
}

// ended notes the end of a turn, and returns the turns that are ready now.
func (b *branching) ended(w *worker, turn int) (ready []int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := &w.observation
	b.sent[turn] = true
	critical := b.critical[turn] + o.End.Sub(o.Start)
	if b.whole.Start == 0 || o.Start < b.whole.Start {
		b.whole.Start = o.Start
	}
	if o.End > b.whole.End {
		b.whole.End, b.whole.Critical = o.End, critical
	}
	if o.Err != nil || o.Cancelled {
		b.whole.Completed = false
		b.failed[turn] = o.Err != nil
		b.err = cmp.Or(b.err, o.Err)
		return nil
	}
	if b.owner.load.KeepsAnswers {
		b.answers[turn], b.histories[turn] = slices.Clone(o.Answer), w.history()
	}
	for _, child := range b.next[turn] {
		if o.End > b.ready[child] {
			b.ready[child], b.critical[child] = o.End, critical
		}
		if b.left[child]--; b.left[child] == 0 {
			ready = append(ready, child)
		}
	}
	return ready
}

// readyAt returns when everything that a turn waits for had ended.
func (b *branching) readyAt(turn int) clock.Instant {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.ready[turn]
}

// take returns a worker for a branch: an idle one or a new one.
func (b *branching) take() *worker {
	b.mu.Lock()
	defer b.mu.Unlock()
	var w *worker
	if idle := &b.owner.branches; len(*idle) > 0 {
		w, *idle = (*idle)[len(*idle)-1], (*idle)[:len(*idle)-1]
	} else {
		w = b.owner.load.newWorker(int(b.owner.load.branches.Add(1)))
		if t := b.owner.load.alarm.Load(); t != nil {
			w.onFrame = chainOnFrame(w.onFrame, func(_ []byte, _, seen clock.Instant) { t.Notice(seen) })
		}
	}
	w.request, w.answers, w.histories = b.request, b.answers, b.histories
	return w
}

// give makes a branch's worker idle.
func (b *branching) give(w *worker) {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.answers, w.histories = nil, nil
	b.owner.branches = append(b.owner.branches, w)
}

// countUnsent counts the turns that were not sent: because a request failed that they wait for, directly or not, or
// because the end of the load cut them off.
func (b *branching) countUnsent() {
	if b.request.Unmeasured {
		return
	}
	for turn, of := range b.waits {
		if b.sent[turn] {
			continue
		}
		if slices.ContainsFunc(of, func(other int) bool { return b.failed[other] }) {
			b.failed[turn] = true
			b.owner.load.orphaned.Add(1)
		} else {
			b.owner.load.cutOff.Add(1)
		}
	}
}

// history is by how much a conversation up to an answer, that answer included, differs from one whose answers have the
// lengths that were asked for. Reasoning is the usual cause: an answer has it, the next prompt does not, because
// clients do not send it back and chat templates drop it.
type history struct {
	more    int64  // tokens that it is longer; negative: shorter
	unknown bool   // more is not known
	kept    uint32 // tokens of the last answer that the next prompt has: those that are not reasoning
	dropped bool   // the last answer had reasoning, so no cache has what follows it in the next prompt
}

// history returns the history after the request that has completed.
func (w *worker) history() history {
	var h history
	if p := w.ask.Previous; p > 0 && p <= len(w.histories) {
		h = w.histories[p-1]
	}
	o := &w.observation
	h.dropped = o.HasReasoningTokens || o.ReasoningFrames > 0
	h.unknown = h.unknown || h.dropped && !o.HasReasoningTokens || len(o.Calls) > 0
	if o.UncountedOutput || !o.Usage {
		return h // prompts are compared only with the server's usage
	}
	h.kept = uint32(min(o.OutputTokens-min(o.ReasoningTokens, o.OutputTokens), math.MaxUint32))
	h.more += int64(h.kept) - int64(w.ask.OSL)
	return h
}

// correct corrects the lengths of a request whose prompt continues the history.
func (h history) correct(s *workload.Spec) {
	longer := func(n uint32) uint32 { return uint32(min(max(int64(n)+h.more, 0), math.MaxUint32)) }
	if s.Shared > 0 {
		s.Shared = longer(s.Shared)
	}
	if h.dropped {
		s.Shared -= min(h.kept, s.Shared)
	}
	switch {
	case h.unknown:
		s.ISL = 0
	case s.ISL > 0:
		s.ISL = max(longer(s.ISL), 1)
	}
}
