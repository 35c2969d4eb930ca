package simulator

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// errGone is why a reply ends early: the client left or the simulator closes.
var errGone = errors.New("simulator: the client left")

// errStruck is why a reply ends early that a fault has ended.
var errStruck = errors.New("simulator: a fault ended the reply")

// reply is the response to one request that an engine works on. It belongs to the handler's goroutine.
type reply struct {
	ep      *Endpoint
	ctx     context.Context // done when the client has left
	w       http.ResponseWriter
	control *http.ResponseController
	engine  *loop
	seq     *sequence
	q       *request
	record  *Record
	enc     *encoder
	buf     []byte
	fault   *Fault        // still to strike, nil if none
	pause   time.Duration // between the pieces of a drip, 0 without one
	silence *time.Timer   // runs out when a keep-alive is due, nil without keep-alives
}

func newReply(ep *Endpoint, w http.ResponseWriter, q *request, record *Record, output int, fault *Fault) *reply {
	return &reply{
		ep:      ep,
		w:       w,
		control: http.NewResponseController(w),
		seq:     &sequence{prompt: q.promptTokens, blocks: q.blocks, output: output, outlet: newOutlet()},
		q:       q,
		record:  record,
		enc:     newEncoder(q, &ep.config, record.RequestID, time.Now().Unix()),
		buf:     make([]byte, 0, 512),
		fault:   fault,
	}
}

// send sends the response, streamed or not.
func (p *reply) send() {
	p.record.Status = http.StatusOK
	var err error
	if p.q.stream {
		err = p.stream()
	} else {
		err = p.whole()
	}
	if err == nil {
		p.record.FinishReason = p.finishReason()
	}
	p.record.Cancelled = errors.Is(err, errGone)
}

// leave takes the sequence from the engine, if it is still there, and then counts how the request ended. It runs for a reply that was
// aborted, too.
func (p *reply) leave() {
	if p.seq.outlet.ready.Load() < int64(p.seq.output) {
		p.engine.cancel(p.seq)
	}
	p.engine.outstanding.Add(-1)
	switch p.record.FinishReason {
	case finishLength:
		p.ep.ends.length.Add(1)
	case finishStop:
		p.ep.ends.stop.Add(1)
	default:
		p.ep.ends.abort.Add(1)
	}
}

// Reasons of an output's end.
const (
	finishLength = "length"
	finishStop   = "stop"
)

func (p *reply) finishReason() string {
	if p.seq.output < p.q.maxTokens {
		return finishStop
	}
	return finishLength
}

// stream sends the frames as the engine gives the tokens.
func (p *reply) stream() error {
	frames := &p.ep.config.Frames
	p.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	p.w.Header().Set("Cache-Control", "no-cache")
	if err := p.flush(); err != nil { // servers send the head before there is a token
		return err
	}
	if frames.KeepAlive > 0 {
		p.silence = time.NewTimer(frames.KeepAlive)
		defer p.silence.Stop()
	}
	if err := p.role(RoleAtOnce); err != nil {
		return err
	}
	for sent := 0; sent < p.seq.output; {
		until := p.frameEnd(sent)
		if err := p.await(until); err != nil {
			return err
		}
		if err := p.frame(sent, until); err != nil {
			return err
		}
		sent = until
	}
	return p.end()
}

// role sends the role frame if this is the time for it.
func (p *reply) role(when RoleFrame) error {
	if p.q.api != chat || p.ep.config.Frames.Role != when {
		return nil
	}
	return p.write(p.enc.role(p.buf[:0]))
}

// frameEnd returns the end of the token frame that begins at a token.
func (p *reply) frameEnd(from int) int {
	if from == 0 {
		return 1
	}
	return min(from+p.ep.config.Frames.TokensPerFrame, p.seq.output)
}

// frame sends one token frame, and before it what belongs there.
func (p *reply) frame(from, until int) error {
	if from == 0 {
		if err := p.role(RoleWithFirstToken); err != nil {
			return err
		}
	}
	if err := p.strike(until); err != nil {
		return err
	}
	frames := &p.ep.config.Frames
	reason := ""
	if until == p.seq.output && !frames.FinishFrame {
		reason = p.finishReason()
	}
	usage := frames.RunningUsage || p.q.includeUsage && p.q.continuousUsage && !frames.NoUsage
	if err := p.write(p.enc.tokens(p.buf[:0], from, until, reason, usage)); err != nil {
		return err
	}
	p.record.sent(p.enc.sent, until-from, p.ep.config.Truth.Tokens)
	return nil
}

// end sends what follows the last token.
func (p *reply) end() error {
	frames := &p.ep.config.Frames
	if frames.FinishFrame {
		if err := p.write(p.enc.finish(p.buf[:0], p.finishReason())); err != nil {
			return err
		}
	}
	if p.q.includeUsage && !frames.NoUsage {
		if err := p.write(p.enc.usage(p.buf[:0], p.seq.output)); err != nil {
			return err
		}
	}
	return p.done()
}

func (p *reply) done() error {
	if p.ep.config.Frames.NoDone {
		return nil
	}
	return p.write(p.enc.raw(p.buf[:0], []byte("[DONE]")))
}

// whole sends the response in one piece when the output has ended.
func (p *reply) whole() error {
	if err := p.await(p.seq.output); err != nil {
		return err
	}
	p.w.Header().Set("Content-Type", "application/json")
	if err := p.strike(p.seq.output); err != nil {
		return err
	}
	body := p.enc.whole(p.buf[:0], p.seq.output, p.finishReason())
	p.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if err := p.write(body); err != nil {
		return err
	}
	p.record.sent(p.enc.sent, p.seq.output, p.ep.config.Truth.Tokens)
	return nil
}

// await blocks until the engine has produced so many tokens.
func (p *reply) await(tokens int) error {
	for p.seq.outlet.ready.Load() < int64(tokens) {
		select {
		case <-p.seq.outlet.wake:
		case <-p.keepAlive():
			if err := p.write(p.enc.comment(p.buf[:0])); err != nil {
				return err
			}
		case <-p.ctx.Done():
			return errGone
		case <-p.engine.done:
			return errGone
		}
	}
	p.record.CachedTokens, p.enc.cached = p.seq.cached, p.seq.cached // set before the first token
	return nil
}

// keepAlive returns the channel that says that a keep-alive is due, nil if there are none.
func (p *reply) keepAlive() <-chan time.Time {
	if p.silence == nil {
		return nil
	}
	return p.silence.C
}

// write sends bytes at once, and keeps their buffer for the next frame.
func (p *reply) write(b []byte) error {
	p.buf = b
	if p.pause > 0 {
		return p.drip(b)
	}
	if _, err := p.w.Write(b); err != nil {
		return errGone
	}
	return p.flush()
}

// drip sends bytes in small pieces.
func (p *reply) drip(b []byte) error {
	const piece = 16
	for len(b) > 0 {
		n := min(piece, len(b))
		if _, err := p.w.Write(b[:n]); err != nil {
			return errGone
		}
		if err := p.flush(); err != nil {
			return err
		}
		if err := p.rest(p.pause); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

func (p *reply) flush() error {
	if p.silence != nil {
		p.silence.Reset(p.ep.config.Frames.KeepAlive)
	}
	if err := p.control.Flush(); err != nil {
		return errGone
	}
	return nil
}

// rest blocks for d, for ever if it is 0, or until the client leaves or the simulator closes.
func (p *reply) rest(d time.Duration) error {
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
	return errGone
}

// strike lets the fault happen if the frame that ends at this token is the one it was waiting for.
func (p *reply) strike(until int) error {
	f := p.fault
	if f == nil || until <= min(f.AfterTokens, p.seq.output-1) {
		return nil
	}
	p.fault = nil
	switch f.Kind {
	case FaultStall:
		return p.rest(f.Pause)
	case FaultDrip:
		p.pause = f.Pause
		return nil
	case FaultGarbageFrame:
		return p.breakOff([]byte(`{"id":"chatcmpl-0","choices":[{"index":0,"delta":{"cont`))
	case FaultErrorFrame:
		return p.breakOff(serverError().json())
	default:
		p.abort(f.Kind)
		return errStruck
	}
}

// breakOff sends data instead of the next frame, or of the body, and ends the response as if nothing was wrong.
func (p *reply) breakOff(data []byte) error {
	if err := p.write(p.enc.raw(p.buf[:0], data)); err != nil {
		return err
	}
	if p.q.stream {
		if err := p.done(); err != nil {
			return err
		}
	}
	return errStruck
}

// abort ends the connection in the middle of the response: of a body that is no stream, half has been sent.
func (p *reply) abort(kind FaultKind) {
	if !p.q.stream {
		body := p.enc.whole(p.buf[:0], p.seq.output, p.finishReason())
		p.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_ = p.write(body[:len(body)/2]) // the connection ends here in any case
	}
	if kind == FaultReset {
		p.reset()
	}
	panic(http.ErrAbortHandler)
}

// reset closes the connection so that the client gets a TCP RST. What it cannot reset, abort closes.
func (p *reply) reset() {
	conn, _, err := p.control.Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it the close is an orderly one, and that is all that can be done
	}
	_ = conn.Close()
}
