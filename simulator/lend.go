package simulator

// A stream over plain HTTP/1.1 is lent to the loop: as soon as the model has a token, the loop's own goroutine writes
// its frame, and no other goroutine wakes for it. Where that cannot be, in front of a fault, behind a client that does
// not read, and at the end, the loop gives it back to the handler.

// lend lets the loop send the stream until it gives it back. It does nothing for a stream that the handler has to send
// itself.
func (p *reply) lend() error {
	if p.direct == nil || p.pause > 0 || p.progress.ended {
		return nil
	}
	o := p.seq.outlet
	o.lend(p)
	for o.lent() {
		select {
		case <-o.wake:
		case <-p.ctx.Done():
			o.reclaim()
			return errGone
		case <-p.engine.done:
			o.reclaim()
			return errGone
		}
	}
	return p.direct.flush()
}

// drive sends what the tokens produced so far allow, past net/http. It returns false when the handler has to go on.
func (p *reply) drive(ready int) bool {
	for {
		next, b := p.compose(ready)
		switch next {
		case turnAwait:
			return true
		case turnWrite:
			var sent bool
			p.buf, sent = p.direct.send(b, p.pen)
			p.note()
			if !sent {
				return false
			}
		default:
			return false
		}
	}
}

// lend gives the loop the reply, with the tokens that are there.
func (o *outlet) lend(p *reply) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.drive(int(o.ready.Load())) {
		o.borrowed = p
	}
}

// lent says whether the loop still has the reply.
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

// drive sends a lent reply's frames. If the loop has not kept it, the handler is to be woken; returned says that it was
// given back just now.
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
