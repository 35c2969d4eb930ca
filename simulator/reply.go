package simulator

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// errGone ends a reply early because the client left or the simulator closes.
var errGone = errors.New("simulator: the client left")

// errFault ends a reply early because a fault ended it.
var errFault = errors.New("simulator: a fault ended the reply")

// reply is the response to one request in an engine. It belongs to the handler's goroutine.
type reply struct {
	ep      *Endpoint
	ctx     context.Context // done when the client has left
	w       http.ResponseWriter
	control *http.ResponseController
	engine  *loop
	seq     *sequence
	q       *request
	record  *Record
	enc     encoder
	writer  *frameWriter // of the encoder
	buf     []byte
	direct  *direct       // sends past net/http; nil if this answer cannot be sent that way
	zip     *gzip.Writer  // compresses the answer; nil if it is not compressed
	fault   *Fault        // has not struck yet; nil if there is none
	pause   time.Duration // between the pieces of a drip; 0 without a drip
	silence *time.Timer   // fires when a keep-alive is due; nil without keep-alives

	progress progress // of a stream
}

func newReply(ep *Endpoint, w http.ResponseWriter, q *request, record *Record, fault *Fault) *reply {
	p := &reply{
		ep:      ep,
		w:       w,
		control: http.NewResponseController(w),
		seq: &sequence{prompt: q.promptTokens, blocks: q.blocks, output: q.script.tokens, noise: q.script.noise,
			outlet: newOutlet()},
		q:      q,
		record: record,
		enc:    q.api.encoder(q, &ep.config, record.RequestID, time.Now().Unix()),
		buf:    make([]byte, chunkHead, 512),
		fault:  fault,
	}
	p.writer = p.enc.common()
	p.writer.seq = p.seq
	return p
}

// send sends the response, streamed or not.
func (p *reply) send() {
	p.record.Status = http.StatusOK
	if p.fault != nil && p.fault.Kind == FaultGzip {
		p.compress()
	}
	var err error
	if p.q.stream {
		err = p.stream()
	} else {
		err = p.whole()
	}
	if p.zip != nil && err == nil {
		err = p.zip.Close()
	}
	if err == nil {
		p.record.FinishReason = p.finishReason()
	}
	p.record.Cancelled = errors.Is(err, errGone)
}

// release removes the sequence from the engine, if it is still there, and then counts how the request ended. It also
// runs for an aborted reply.
func (p *reply) release() {
	if p.seq.outlet.ready.Load() < int64(p.seq.output) {
		p.engine.cancel(p.seq)
	} else {
		p.record.LastProduced = p.seq.latest
	}
	if p.record.OutputTokens > 0 {
		p.record.FirstProduced = p.seq.first
	}
	p.engine.inFlight.Add(-1)
	switch p.record.FinishReason {
	case finishLength:
		p.ep.ends.length.Add(1)
	case finishStop:
		p.ep.ends.stop.Add(1)
	default:
		p.ep.ends.abort.Add(1)
	}
}

// Finish reasons.
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

// whole sends the response in one piece after the output has ended.
func (p *reply) whole() error {
	if err := p.await(p.seq.output); err != nil {
		return err
	}
	p.w.Header().Set("Content-Type", "application/json")
	if err := p.applyFault(p.seq.output); err != nil {
		return err
	}
	body := p.enc.whole(p.buf[:chunkHead], p.seq.output, p.finishReason())
	if p.zip == nil {
		p.w.Header().Set("Content-Length", strconv.Itoa(len(body)-chunkHead))
	}
	if err := p.write(body); err != nil {
		return err
	}
	p.record.sent(p.writer.sent, p.seq.output, 1, p.ep.config.Truth.Tokens)
	return nil
}

// await blocks until the engine has produced a number of tokens.
func (p *reply) await(tokens int) error {
	for p.seq.outlet.ready.Load() < int64(tokens) {
		select {
		case <-p.seq.outlet.wake:
		case <-p.keepAlive():
			if err := p.write(p.writer.comment(p.buf[:chunkHead])); err != nil {
				return err
			}
		case <-p.ctx.Done():
			return errGone
		case <-p.engine.done:
			return errGone
		}
	}
	p.recordCached()
	return nil
}

// keepAlive returns the channel that fires when a keep-alive is due, or nil if there are none.
func (p *reply) keepAlive() <-chan time.Time {
	if p.silence == nil {
		return nil
	}
	return p.silence.C
}

// recordCached records the tokens from the prefix cache, which are known before the first token.
func (p *reply) recordCached() { p.record.CachedTokens, p.writer.cached = p.seq.cached, p.seq.cached }

// write sends the bytes of a buffer after its first chunkHead bytes, and keeps the buffer for the next frame.
func (p *reply) write(b []byte) error {
	b = p.writer.seal(b)
	p.buf = b
	b = b[chunkHead:]
	switch split := p.ep.config.Frames.SplitBytes; {
	case p.pause > 0:
		return p.writePieces(b, dripPiece)
	case split > 0:
		return p.writePieces(b, split)
	default:
		return p.put(b)
	}
}

// dripPiece is the number of bytes per piece of a drip.
const dripPiece = 16

// writePieces sends bytes in small pieces, with pauses between them during a drip.
func (p *reply) writePieces(b []byte, size int) error {
	for piece := range slices.Chunk(b, size) {
		if err := p.put(piece); err != nil {
			return err
		}
		if p.pause == 0 {
			continue
		}
		if err := p.pauseFor(p.pause); err != nil {
			return err
		}
	}
	return nil
}

// put sends bytes at once.
func (p *reply) put(b []byte) error {
	var err error
	if p.zip == nil {
		_, err = p.w.Write(b)
	} else if _, err = p.zip.Write(b); err == nil {
		err = p.zip.Flush()
	}
	if err != nil {
		return errGone
	}
	return p.flush()
}

// compress sends the answer through gzip, as some proxies do whatever the client accepts.
func (p *reply) compress() {
	p.fault = nil
	p.w.Header().Set("Content-Encoding", "gzip")
	p.zip = gzip.NewWriter(p.w)
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

// pauseFor blocks for d, or for ever if d is 0. It returns errGone if the client leaves or the simulator closes
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
	return errGone
}

// faultDue reports whether the fault strikes before the frame that ends at this token.
func (p *reply) faultDue(until int) bool {
	return p.fault != nil && until > min(p.fault.AfterTokens, p.seq.output-1)
}

// applyFault lets the fault happen if it is due before the frame that ends at this token.
func (p *reply) applyFault(until int) error {
	if !p.faultDue(until) {
		return nil
	}
	f := p.fault
	p.fault = nil
	switch f.Kind {
	case FaultStall:
		return p.pauseFor(f.Pause)
	case FaultDrip:
		p.pause = f.Pause
		return nil
	case FaultGarbageFrame:
		return p.endWith(p.enc.broken(p.buf[:chunkHead]))
	case FaultErrorFrame:
		return p.endWith(p.enc.failure(p.buf[:chunkHead], serverError()))
	default:
		p.abort(f.Kind)
		return errFault
	}
}

// endWith sends b in place of the next frame, or of the body, and ends the response as if nothing were wrong.
func (p *reply) endWith(b []byte) error {
	if err := p.write(b); err != nil {
		return err
	}
	if b := p.enc.mark(p.buf[:chunkHead]); len(b) > chunkHead {
		if err := p.write(b); err != nil {
			return err
		}
	}
	return errFault
}

// abort ends the connection in the middle of the response. Of a body that is not a stream, half is sent.
func (p *reply) abort(kind FaultKind) {
	if !p.q.stream {
		body := p.enc.whole(p.buf[:chunkHead], p.seq.output, p.finishReason())
		p.w.Header().Set("Content-Length", strconv.Itoa(len(body)-chunkHead))
		_ = p.write(body[:chunkHead+(len(body)-chunkHead)/2]) // the connection ends here anyway
	}
	if kind == FaultReset {
		p.reset()
	}
	panic(http.ErrAbortHandler)
}

// reset closes the connection so that the client gets a TCP RST. If that is impossible, abort closes the connection.
func (p *reply) reset() {
	conn, _, err := p.control.Hijack()
	if err != nil {
		return
	}
	if t, ok := conn.(*tls.Conn); ok {
		conn = t.NetConn()
	}
	if tcp, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = tcp.SetLinger(0) // if this fails, the close is an orderly one
	}
	_ = conn.Close()
}
