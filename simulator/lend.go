package simulator

import "github.com/spate-load/spate/simulator/wire"

// A stream over plain HTTP/1.1 is lent to the loop: as soon as the model has a token, the loop's goroutine writes its
// frame, and no other goroutine wakes for it. The loop gives the stream back to the handler before a fault, if the
// client does not read, and at the end.

// lend lets the loop send the stream, and blocks until the loop gives it back. It does nothing for a stream that the
// handler must send itself.
func (p *reply) lend() error {
	if p.direct == nil || p.progress.ended {
		return nil
	}
	o := p.outlet
	o.lend(p)
	for o.lent() {
		select {
		case <-o.wake:
		case <-p.ctx.Done():
			o.reclaim()
			return wire.ErrGone
		case <-p.engine.done:
			o.reclaim()
			return wire.ErrGone
		}
	}
	return p.direct.Flush()
}

// drive sends the frames of the tokens produced so far, past net/http. It returns false if the handler must continue.
func (p *reply) drive(ready int) bool {
	for {
		next, b := p.compose(ready)
		switch next {
		case turnAwait:
			return true
		case turnWrite:
			var sent bool
			p.buf, sent = p.direct.Send(b, p.writer)
			p.recordSent()
			if !sent {
				return false
			}
		default:
			return false
		}
	}
}

// lend sends the tokens that are ready, and then gives the loop the reply unless the handler must continue.
func (o *outlet) lend(p *reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.drive(int(o.ready.Load())) {
		o.borrowed = p
	}
}

// lent reports whether the loop still has the reply.
func (o *outlet) lent() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.borrowed != nil
}

// reclaim takes the reply back.
func (o *outlet) reclaim() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.borrowed = nil
}

// drive sends a lent reply's frames. If kept is false, the handler must be woken. returned reports whether this call
// gave the reply back.
func (o *outlet) drive(produced int) (kept, returned bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.borrowed == nil {
		return false, false
	}
	if o.borrowed.drive(produced) {
		return true, false
	}
	o.borrowed = nil
	return false, true
}
