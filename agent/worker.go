package agent

import (
	"cmp"
	"context"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/agent/recorder"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// worker plays one arrival after another, in memory that it reuses. It belongs to one goroutine.
type worker struct {
	load        *load
	shard       *recorder.Shard
	ask         workload.Ask
	request     recorder.Request
	answers     [][]byte // of the session so far
	body, id    []byte
	observation stream.Observation
	broken      error         // why the request could not be made
	pause       time.Duration // after the last failure to connect; 0: it was none
	alarm       *time.Timer   // nil: nothing was waited for yet
	watch       Watch         // nil: nobody does

	// Made once, so that a request makes no closures.
	appendPrompt func([]byte) []byte
	onToken      func(clock.Instant, int)
	onFrame      func([]byte, clock.Instant, clock.Instant) // nil: nobody watches
}

func (l *load) newWorker(i int) *worker {
	w := &worker{load: l, shard: l.recorder.Shard(i)}
	form := l.client.Form()
	w.appendPrompt = func(dst []byte) []byte {
		dst, w.broken = l.content.AppendPrompt(dst, workload.Request{
			Index: w.request.Index, Turn: w.request.Turn, Form: form, Answers: w.answers,
		})
		return dst
	}
	w.onToken = w.token
	if l.newWatch != nil {
		w.watched(l.newWatch())
	}
	return w
}

// token takes in a frame that may carry a token, and its receive lag with it, so that the memory of a stream does not
// grow by that.
func (w *worker) token(at clock.Instant, tokens int) {
	o := &w.observation
	w.shard.Token(&w.request, at, tokens, o.Lags...)
	o.Lags = o.Lags[:0]
}

// Room that is made for frames before they come: for as many as tokens are asked for, at most mostRoom, and for those
// around them.
const (
	mostRoom  = 1024
	spareRoom = 4
	// mostAnswer is how many bytes of an answer's memory the next one takes over.
	mostAnswer = 64 << 10
)

// makeRoom makes room for the frames of an answer of the length that is asked for: a list that grew would hold up to
// twice as much. What an answer took that was longer than asked for is let go.
func (w *worker) makeRoom() {
	o := &w.observation
	if cap(o.Frames) > 2*int(w.ask.OSL)+mostRoom {
		o.Frames = nil
	}
	if cap(o.Answer) > mostAnswer {
		o.Answer = nil
	}
	o.Frames = slices.Grow(o.Frames[:0], int(min(w.ask.OSL, mostRoom))+spareRoom)
}

// prepare makes the first request of an arrival. It is a function of the stage's seed and the arrival's index alone,
// however many agents there are; but the endpoint is not, if that is to be the one with the least to do. It reports
// whether there is a request: if not, the load has failed.
func (w *worker) prepare(a arrival.Arrival) bool {
	w.answers = w.answers[:0]
	w.request = recorder.Request{
		Index:      a.Index,
		Unmeasured: a.Unmeasured,
	}
	var err error
	if w.request.Endpoint, err = w.load.balance.of(a.Index); err != nil {
		return w.unmade(err)
	}
	return w.prepareTurn(0)
}

// prepareTurn makes a request of the arrival, and reports whether there is one.
func (w *worker) prepareTurn(turn int) bool {
	var err error
	w.ask, err = w.load.content.Ask(w.request.Index, turn)
	w.request.Turn, w.request.ISL, w.request.OSL, w.request.Shared = turn, w.ask.ISL, w.ask.OSL, w.ask.Shared
	if err == nil {
		w.body = w.load.client.AppendBody(w.body[:0], w.ask.OSL, w.appendPrompt)
	}
	if err := cmp.Or(err, w.broken); err != nil {
		return w.unmade(err)
	}
	w.makeRoom()
	if w.load.records {
		h := fnv.New64a()
		_, _ = h.Write(w.body)
		w.request.BodyHash = h.Sum64()
	}
	return true
}

// unmade ends the load, of which a request cannot be made. It is false.
func (w *worker) unmade(err error) bool {
	w.load.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "a request cannot be made: "+err.Error())
	return false
}

// send sends the prepared request and records what became of it. It blocks until the response has ended.
func (w *worker) send(scheduled clock.Instant) {
	w.request.Scheduled = scheduled
	if w.load.balance.live() {
		w.request.Endpoint = w.load.balance.take()
		defer w.load.balance.done(w.request.Endpoint)
	}
	first := w.load.firsts.begin()
	now := clock.Now()
	w.load.paced(now)
	w.shard.Started(&w.request, now)
	if w.watch != nil {
		w.watch.Began(scheduled, now)
	}
	w.load.client.Do(w.load.running, stream.Request{
		Endpoint:   w.request.Endpoint,
		ID:         w.requestID(),
		Body:       w.body,
		Tokens:     w.ask.OSL,
		OnToken:    w.onToken,
		OnFrame:    w.onFrame,
		KeepAnswer: w.load.keepsAnswers && w.request.Turn+1 < w.ask.Turns,
	}, &w.observation)
	w.shard.Ended(&w.request, &w.observation)
	if w.watch != nil {
		w.watch.Ended(&w.observation)
	}
	w.load.observe(&w.observation, first)
}

// requestID names the request: RUN-STAGE-INDEX, and -TURN in a session of several.
func (w *worker) requestID() string {
	w.id = append(w.id[:0], w.load.prefix...)
	w.id = strconv.AppendUint(w.id, w.request.Index, 10)
	if w.ask.Turns > 1 {
		w.id = append(w.id, '-')
		w.id = strconv.AppendInt(w.id, int64(w.request.Turn), 10)
	}
	return string(w.id)
}

// wait blocks until an instant, and reports whether ctx goes on then. It is up to a millisecond late.
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
		return ctx.Err() == nil
	case <-ctx.Done():
		w.alarm.Stop()
		return false
	}
}

// Pauses of a slot of the closed loop after a failure.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
	// A slot is held at least this long by a request that failed: a server that refuses at once is still loaded, as a
	// closed loop does, but a slot sends it no more than a thousand requests a second.
	shortestFailure = time.Millisecond
)

// rest returns when the worker's slot is free again: at the end of the response, or later after a failure. A server
// that nobody can connect to is not hammered.
func (w *worker) rest() clock.Instant {
	o := &w.observation
	switch {
	case o.Err == nil:
		w.pause = 0
		return o.End
	case unreachable(o.Err):
		w.pause = min(max(2*w.pause, firstPause), lastPause)
		return o.End.Add(w.pause)
	default:
		w.pause = 0
		return max(o.End, o.Start.Add(shortestFailure))
	}
}
