package agent

import (
	"cmp"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/agent/recorder"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

// worker sends one request after another, in memory that it reuses. It belongs to one goroutine.
type worker struct {
	load        *load
	shard       *recorder.Shard
	request     recorder.Request
	body        []byte
	observation stream.Observation
	broken      error         // why the request could not be made
	pause       time.Duration // after the last failure to connect; 0: it was none

	// Made once, so that a request makes no closures.
	appendPrompt func([]byte) []byte
	onToken      func(clock.Instant, int)
}

func (l *load) newWorker(i int) *worker {
	w := &worker{load: l, shard: l.recorder.Shard(i)}
	form := l.client.Form()
	w.appendPrompt = func(dst []byte) []byte {
		dst, w.broken = l.content.AppendPrompt(dst, workload.Request{Index: w.request.Index, Form: form})
		return dst
	}
	w.onToken = func(at clock.Instant, tokens int) { w.shard.Token(&w.request, at, tokens) }
	return w
}

// prepare makes the request of an arrival. Requests go to the endpoints in turn, by their index: so the same one goes to the same
// endpoint however many agents there are.
func (w *worker) prepare(a arrival.Arrival) {
	ask, err := w.load.content.Ask(a.Index, 0)
	w.request = recorder.Request{
		Index:      a.Index,
		Endpoint:   int(a.Index % uint64(len(w.load.target().GetEndpoints()))),
		Unmeasured: a.Unmeasured,
		ISL:        ask.ISL,
		OSL:        ask.OSL,
	}
	w.body = w.load.client.AppendBody(w.body[:0], ask.OSL, w.appendPrompt)
	if err := cmp.Or(err, w.broken); err != nil {
		w.load.fail(spatev1.FailureKind_FAILURE_KIND_AGENT, true, "a request cannot be made: "+err.Error())
	}
	if w.load.records {
		h := fnv.New64a()
		_, _ = h.Write(w.body)
		w.request.BodyHash = h.Sum64()
	}
}

// send sends the prepared request and records what became of it. It blocks until the response has ended.
func (w *worker) send(scheduled clock.Instant) {
	w.request.Scheduled = scheduled
	w.shard.Started(&w.request, clock.Now())
	w.load.client.Do(w.load.running, stream.Request{
		Endpoint: w.request.Endpoint,
		ID:       w.load.prefix + strconv.FormatUint(w.request.Index, 10),
		Body:     w.body,
		OnToken:  w.onToken,
	}, &w.observation)
	w.shard.Ended(&w.request, &w.observation)
	w.load.observe(&w.request, &w.observation)
}

// Pauses of a slot of the closed loop after a failure.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = time.Second
	// A slot is held at least this long by a request that failed: a server that refuses at once is still loaded, as a closed loop
	// does, but a slot sends it no more than a thousand requests a second.
	shortestFailure = time.Millisecond
)

// rest returns when the worker's slot is free again: at the end of the response, or later after a failure. A server that nobody
// can connect to is not hammered.
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
