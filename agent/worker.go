package agent

import (
	"hash/fnv"
	"strconv"
	"time"

	"github.com/spate-load/spate/agent/arrival"
	"github.com/spate-load/spate/agent/recorder"
	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/workload"
)

// worker sends one request after another, in memory that it reuses. It belongs to one goroutine.
type worker struct {
	load        *load
	shard       *recorder.Shard
	request     recorder.Request
	body        []byte
	observation stream.Observation
	pause       time.Duration // after the last failure to connect; 0: it was none

	// Made once, so that a request makes no closures.
	appendPrompt func([]byte) []byte
	onToken      func(clock.Instant, int)
}

func (l *load) newWorker(i int) *worker {
	w := &worker{load: l, shard: l.recorder.Shard(i)}
	form := workload.Text
	if l.client.TakesTokenIDs() {
		form = workload.TokenIDs
	}
	w.appendPrompt = func(dst []byte) []byte { return l.content.AppendPrompt(dst, w.request.Index, form) }
	w.onToken = func(at clock.Instant, tokens int) { w.shard.Token(&w.request, at, tokens) }
	return w
}

// prepare makes the request of an arrival. Requests go to the endpoints in turn, by their index: so the same one goes to the same
// endpoint however many agents there are.
func (w *worker) prepare(a arrival.Arrival) {
	isl, osl := w.load.content.Lengths(a.Index)
	w.request = recorder.Request{
		Index:    a.Index,
		Endpoint: int(a.Index % uint64(len(w.load.target().GetEndpoints()))),
		Warmup:   a.Warmup,
		ISL:      isl,
		OSL:      osl,
	}
	w.body = w.load.client.AppendBody(w.body[:0], osl, w.appendPrompt)
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
