package executor

import (
	"cmp"
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/agent/recorder"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/schedule"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/draw"
)

// worker plays one arrival after another, and reuses its memory. It belongs to one goroutine.
type worker struct {
	observation stream.Observation // each frame changes it, and reads the next two
	shard       *recorder.Shard
	request     recorder.Request
	load        *Load
	ask         workload.Spec
	asked       *ready.Asked
	answers     [][]byte // of the session's turns so far
	histories   []history
	body, id    []byte
	buildErr    error         // why the request could not be made
	branches    []*worker     // idle ones, for sessions that branch
	pause       time.Duration // after the last failure to connect; 0: the last request did not fail so
	alarm       *time.Timer   // nil: not needed yet
	watch       Watch         // nil: requests are not watched

	// Made once, so that requests create no closures.
	appendPrompt func([]byte) []byte
	onToken      func(clock.Instant, int)
	onFrame      func([]byte, clock.Instant, clock.Instant) // nil: requests are not watched
}

func (l *Load) newWorker(i int) *worker {
	w := &worker{load: l, shard: l.recorder.Shard(i)}
	form := l.Client.Form()
	w.appendPrompt = func(dst []byte) []byte {
		dst, w.buildErr = l.Content.AppendPrompt(dst, workload.Request{
			Index: w.request.Index, Turn: w.request.Turn, Form: form, Answers: w.answers,
		})
		return dst
	}
	w.onToken = w.token
	if l.newWatch != nil {
		w.attachWatch(l.newWatch())
	}
	return w
}

// token records a frame that may carry a token. It also records the pending receive lags, so that they do not
// accumulate over a stream.
func (w *worker) token(at clock.Instant, tokens int) {
	o := &w.observation
	w.shard.RecordToken(&w.request, at, tokens, o.Lags...)
	o.Lags = o.Lags[:0]
}

// Room for frames: made in advance for as many frames as tokens are requested, at most maxFrameRoom, plus spareRoom for
// frames without tokens.
const (
	maxFrameRoom = 1024
	spareRoom    = 4
	// maxAnswer is how many bytes of an answer's memory are reused for the next one.
	maxAnswer = 64 << 10
)

// makeRoom makes room for the frames of an answer of the requested length: a list that grows could take up to twice as
// much. It releases the memory of an answer that was longer than requested.
func (w *worker) makeRoom() {
	o := &w.observation
	if cap(o.Frames) > 2*int(w.ask.OSL)+maxFrameRoom {
		o.Frames = nil
	}
	if cap(o.Answer) > maxAnswer {
		o.Answer = nil
	}
	if cap(o.Calls) > maxAnswer {
		o.Calls = nil
	}
	o.Frames = slices.Grow(o.Frames[:0], int(min(w.ask.OSL, maxFrameRoom))+spareRoom)
}

// prepare makes the first request of an arrival. The request depends only on the stage's seed and the arrival's index,
// however many agents there are. The only exception is the endpoint with least_outstanding. prepare returns false if
// the request cannot be made; the load has then failed.
func (w *worker) prepare(a schedule.Arrival) bool {
	w.answers, w.histories = w.answers[:0], w.histories[:0]
	w.request = recorder.Request{Index: a.Index, Unmeasured: a.Unmeasured}
	var err error
	if w.request.Endpoint, err = w.load.balance.Endpoint(a.Index); err != nil {
		return w.failLoad(err)
	}
	return w.prepareTurn(0)
}

// prepareTurn makes one request of the arrival, and reports whether that succeeded.
func (w *worker) prepareTurn(turn int) bool {
	var err error
	w.ask, err = w.load.Content.Spec(w.request.Index, turn)
	if p := w.ask.Previous; p > 0 && p <= len(w.histories) {
		w.histories[p-1].correct(&w.ask)
	}
	w.request.Turn, w.request.ISL, w.request.OSL, w.request.Shared = turn, w.ask.ISL, w.ask.OSL, w.ask.Shared
	w.request.Texts, w.request.Held = w.ask.Texts, 0
	w.request.Part, w.request.Single = w.ask.Part, w.load.Single[w.ask.Part]
	w.request.Model = w.load.Variants[w.ask.Variant].Model
	w.request.Images, w.request.Text = w.ask.Images, w.ask.Text
	w.load.Client.Lengths(&w.request.ISL, &w.request.OSL)
	if err == nil {
		w.body = w.load.Client.AppendVariant(w.body[:0], w.ask.Variant, w.ask.OSL, w.appendPrompt)
	}
	var fields []byte
	if fielder, ok := w.load.Content.(workload.Fielder); ok && w.ask.Fields && w.buildErr == nil && err == nil {
		from := len(w.body)
		if w.body, err = fielder.AppendFields(w.body, w.request.Index, turn); err == nil {
			fields = w.body[from : len(w.body)-1] // between the comma and the brace
		}
	}
	w.asked = w.load.Answers[w.ask.Part].Asked(fields)
	if err := cmp.Or(err, w.buildErr); err != nil {
		return w.failLoad(err)
	}
	w.makeRoom()
	if w.load.Records {
		w.request.BodyHash = stream.BodyHash(w.body)
	}
	return true
}

// failLoad ends the load because a request cannot be made. It returns false.
func (w *worker) failLoad(err error) bool {
	w.load.Fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "a request cannot be made: "+err.Error())
	return false
}

// send sends the prepared request and records what became of it. It blocks until the response has ended.
func (w *worker) send(scheduled clock.Instant) {
	w.request.Scheduled = scheduled
	if w.load.balance.ChosenAtSend() {
		w.request.Endpoint = w.load.balance.Take()
		defer w.load.balance.Done(w.request.Endpoint)
	}
	first := w.load.hopelessCheck.countStart()
	now := clock.Now()
	w.load.countInSecond(now)
	w.shard.RecordStart(&w.request, now)
	if w.watch != nil {
		w.watch.Began(scheduled, now)
	}
	w.load.sendCanary(&w.request, w.shard)
	w.id = w.load.IDs.Append(w.id[:0], w.request.Index, w.request.Turn)
	w.load.client.Do(w.load.running, stream.Request{
		Endpoint:   w.request.Endpoint,
		ID:         string(w.id),
		Body:       w.body,
		Tokens:     w.ask.OSL,
		OnToken:    w.onToken,
		OnFrame:    w.onFrame,
		KeepAnswer: w.asked.Form() || w.load.KeepsAnswers && w.request.Turn+1 < w.ask.Turns,
	}, &w.observation)
	w.request.Outcome = w.load.Answers[w.ask.Part].Check(w.asked, &w.observation)
	w.shard.RecordEnd(&w.request, &w.observation)
	if w.watch != nil {
		w.watch.Ended(&w.observation)
	}
	w.load.observe(&w.observation, first)
}

// wait blocks until an instant, up to a millisecond longer, and reports whether ctx is still alive.
func (w *worker) wait(ctx context.Context, until clock.Instant) bool {
	left := clock.Until(until)
	if left <= 0 {
		return ctx.Err() == nil
	}
	if w.alarm == nil {
		w.alarm = time.NewTimer(left)
	} else {
		w.alarm.Reset(left)
	}
	select {
	case <-w.alarm.C:
		// The scheduler runs the goroutine of the timer that fired last before all others, and counts this as one turn.
		// With more starts than a core can do, only starts would run, the latest first, and heartbeats would wait for
		// seconds.
		runtime.Gosched()
		return ctx.Err() == nil
	case <-ctx.Done():
		w.alarm.Stop()
		return false
	}
}

// Pauses of a closed loop's slot after a failure.
const (
	minPause = 100 * time.Millisecond
	maxPause = time.Second
	// A failed request holds its slot for at least this long. A server that refuses at once still gets load, as a
	// closed loop requires, but at most a thousand requests a second from each slot.
	shortestFailure = time.Millisecond
)

// freeAt returns when the worker's slot is free again: at the end of the response, or later after a failure. Pauses
// grow while connections fail, so that an unreachable server is not flooded.
func (w *worker) freeAt() clock.Instant {
	o := &w.observation
	switch {
	case o.Err == nil:
		w.pause = 0
		return o.End
	case unreachable(o.Err):
		w.pause = min(max(2*w.pause, minPause), maxPause)
		return o.End.Add(w.pause)
	default:
		w.pause = 0
		return max(o.End, o.Start.Add(shortestFailure))
	}
}

// Watch sees what one worker's requests receive, in addition to the recorder: calibration compares it with the truth. A
// worker calls it from one goroutine at a time, request after request: Began, then Frame for each event's data, with
// Token after each frame that has token text, then Ended. No method may block, or keep its arguments.
type Watch interface {
	// Began is called when a request starts, with the time at which it was scheduled.
	Began(scheduled, at clock.Instant)
	// Frame gets the data of one event: at is the time of the frame, seen the time at which the program had it.
	Frame(data []byte, at, seen clock.Instant)
	// Token is called if the previous frame had token text.
	Token()
	// Ended gets what became of the request.
	Ended(o *stream.Observation)
}

// attachWatch makes a watch see the worker's requests.
func (w *worker) attachWatch(by Watch) {
	record := w.onToken
	w.watch, w.onFrame = by, by.Frame
	w.onToken = func(at clock.Instant, tokens int) {
		record(at, tokens)
		by.Token()
	}
}

// The rest of this file chooses the endpoint of each request, as the plan says.

// Ways to choose an endpoint, as plans name them. An empty name means round robin.
const (
	randomly         = "random"
	leastOutstanding = "least_outstanding"
	affinity         = "affinity"
)

// balance chooses the endpoints of requests. Every kind but leastOutstanding depends on the arrival's index alone: an
// arrival has the same endpoint whichever agent plays it, and so have all turns of a session. A balance is safe for
// concurrent use.
type balance struct {
	kind      string
	endpoints uint64
	drawn     draw.Sequence
	content   workload.Workload

	mu       sync.Mutex
	inFlight []uint64 // requests in flight, by endpoint; nil: not counted
	turn     int      // where the search for the fewest starts
}

// newBalance returns the balance of a stage over the endpoints of its target. content tells the groups of prompts.
func newBalance(s *spatev1.Stage, content workload.Workload) *balance {
	b := &balance{
		kind: s.GetTarget().GetBalance(), endpoints: uint64(len(s.GetTarget().GetEndpoints())),
		drawn: draw.New(s.GetSeed(), "endpoint"), content: content,
	}
	if b.kind == leastOutstanding {
		b.inFlight = make([]uint64, b.endpoints)
	}
	return b
}

// Endpoint returns the endpoint of an arrival. It returns an error if the arrival's row cannot be read.
func (b *balance) Endpoint(index uint64) (int, error) {
	switch b.kind {
	case randomly:
		return int(b.drawn.Below(index, b.endpoints)), nil
	case affinity:
		group, grouped, err := workload.Group(b.content, index)
		if err != nil {
			return 0, err
		}
		if grouped {
			return int(group % b.endpoints), nil
		}
	}
	return int(index % b.endpoints), nil
}

// ChosenAtSend reports whether the endpoint is chosen when a request is sent. The worker then calls Take before the
// request and Done after it.
func (b *balance) ChosenAtSend() bool { return b.inFlight != nil }

// Take returns the endpoint with the fewest requests in flight; ties go round robin.
func (b *balance) Take() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	best := b.turn
	for i := range b.inFlight {
		if at := (b.turn + i) % len(b.inFlight); b.inFlight[at] < b.inFlight[best] {
			best = at
		}
	}
	b.inFlight[best]++
	b.turn = (best + 1) % len(b.inFlight)
	return best
}

// Done counts a request as ended.
func (b *balance) Done(endpoint int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight[endpoint]--
}
