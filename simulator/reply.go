package simulator

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/engine"
	"github.com/spate-load/spate/simulator/wire"
)

// errFault ends a reply early because a fault ended it.
var errFault = errors.New("simulator: a fault ended the reply")

// reply is the response to one request in an engine. It belongs to the handler's goroutine.
type reply struct {
	ep      *endpoint
	ctx     context.Context // done when the client has left
	w       http.ResponseWriter
	control *http.ResponseController
	engine  *loop
	seq     *engine.Sequence
	outlet  *outlet // of the sequence
	q       *api.Request
	record  *Record
	writer  *api.FrameWriter
	buf     []byte
	direct  *wire.Direct  // sends past net/http; nil if this answer cannot be sent that way
	fault   *config.Fault // has not struck yet; nil if there is none

	progress progress // of a stream
}

func newReply(ep *endpoint, w http.ResponseWriter, q *api.Request, record *Record, fault *config.Fault) *reply {
	o := &outlet{wake: make(chan struct{}, 1)}
	p := &reply{
		ep:      ep,
		w:       w,
		control: http.NewResponseController(w),
		seq: &engine.Sequence{Prompt: q.PromptTokens, Blocks: q.Blocks, Output: q.Script.Tokens, Noise: q.Script.Noise,
			Outlet: o},
		outlet: o,
		q:      q,
		record: record,
		writer: api.NewWriter(q, &ep.config, record.RequestID, time.Now().Unix()),
		buf:    make([]byte, wire.ChunkHead, 512),
		fault:  fault,
	}
	return p
}

// send sends the response, streamed or not.
func (p *reply) send() {
	p.record.Status = http.StatusOK
	var err error
	if p.q.Stream {
		err = p.stream()
	} else {
		err = p.whole()
	}
	if err == nil {
		p.record.FinishReason = p.finishReason()
	}
	p.record.Cancelled = errors.Is(err, wire.ErrGone)
}

// release removes the sequence from the engine, if it is still there, and then counts how the request ended. It also
// runs for an aborted reply.
func (p *reply) release() {
	if p.outlet.ready.Load() < int64(p.seq.Output) {
		p.engine.send(command{at: clock.Now(), seq: p.seq, cancel: true})
	} else {
		p.record.LastProduced = p.seq.Latest
	}
	if p.record.OutputTokens > 0 {
		p.record.FirstProduced = p.seq.First
	}
	p.engine.inFlight.Add(-1)
	switch p.record.FinishReason {
	case api.FinishLength:
		p.ep.ends.length.Add(1)
	case api.FinishStop:
		p.ep.ends.stop.Add(1)
	default:
		p.ep.ends.abort.Add(1)
	}
}

func (p *reply) finishReason() string {
	if p.seq.Output < p.q.MaxTokens {
		return api.FinishStop
	}
	return api.FinishLength
}

// whole sends the response in one piece after the output has ended.
func (p *reply) whole() error {
	if err := p.await(p.seq.Output); err != nil {
		return err
	}
	p.w.Header().Set("Content-Type", "application/json")
	if err := p.applyFault(p.seq.Output); err != nil {
		return err
	}
	body := p.writer.Whole(p.buf[:wire.ChunkHead], p.seq.Output, p.finishReason())
	p.w.Header().Set("Content-Length", strconv.Itoa(len(body)-wire.ChunkHead))
	if err := p.write(body); err != nil {
		return err
	}
	p.record.sent(p.writer.Sent, p.seq.Output, 1, p.ep.config.Truth.Tokens)
	return nil
}

// await blocks until the engine has produced a number of tokens.
func (p *reply) await(tokens int) error {
	for p.outlet.ready.Load() < int64(tokens) {
		select {
		case <-p.outlet.wake:
		case <-p.ctx.Done():
			return wire.ErrGone
		case <-p.engine.done:
			return wire.ErrGone
		}
	}
	p.recordCached()
	return nil
}

// recordCached records the tokens from the prefix cache, which are known before the first token.
func (p *reply) recordCached() { p.record.CachedTokens, p.writer.Cached = p.seq.Cached, p.seq.Cached }

// write sends the bytes of a buffer after its first chunkHead bytes, and keeps the buffer for the next frame.
func (p *reply) write(b []byte) error {
	p.buf = p.writer.Seal(b)
	if _, err := p.w.Write(p.buf[wire.ChunkHead:]); err != nil {
		return wire.ErrGone
	}
	return p.flush()
}

func (p *reply) flush() error {
	if err := p.control.Flush(); err != nil {
		return wire.ErrGone
	}
	return nil
}

// pauseFor blocks for d, or forever if d is 0. It returns errGone if the client leaves or the simulator closes
// meanwhile.
func (p *reply) pauseFor(d time.Duration) error {
	var over <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	select {
	case <-over:
		return nil
	case <-p.ctx.Done():
	case <-p.engine.done:
	}
	return wire.ErrGone
}
