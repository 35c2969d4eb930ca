package simulator

import (
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/wire"
)

// progress is how far a stream has come. It belongs to the sender: the handler, or the loop while the reply is lent to
// it.
type progress struct {
	opened bool
	sent   int // tokens sent
	part   int // next part of what follows the last token
	// tokens and frames of the last composed write, until note records it as sent.
	tokens, frames int
	ended          bool
}

// turn is what a stream needs next.
type turn uint8

const (
	turnWrite turn = iota // the composed write is to be sent
	turnAwait             // the engine must produce the tokens of the next write
	turnFault             // the fault strikes before the next write
	turnEnd               // everything has been sent
)

// stream sends the frames as the engine produces the tokens.
func (p *reply) stream() error {
	h := p.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	if err := p.flush(); err != nil { // servers send the head before there is a token
		return err
	}
	return p.frames()
}

// frames sends all frames: the loop sends as many as it can, and the handler sends the rest.
func (p *reply) frames() error {
	for {
		if err := p.lend(); err != nil {
			return err
		}
		var err error
		switch next, b := p.compose(int(p.outlet.ready.Load())); next {
		case turnWrite:
			if err = p.write(b); err == nil {
				p.recordSent()
			}
		case turnAwait:
			err = p.await(p.writeEnd())
		case turnFault:
			err = p.applyFault(p.writeEnd())
		case turnEnd:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// compose appends the next write behind the first chunkHead bytes of the buffer, if a write is next. Tokens without a
// frame in the API are recorded and skipped.
func (p *reply) compose(ready int) (turn, []byte) {
	for {
		if next, b := p.composeNext(ready); next != turnWrite || len(b) > wire.ChunkHead {
			return next, b
		}
		p.record.OutputTokens += p.progress.tokens
		p.progress.tokens, p.progress.frames = 0, 0
	}
}

// composeNext composes the write of the next tokens. The write may be empty.
func (p *reply) composeNext(ready int) (turn, []byte) {
	b := p.buf[:wire.ChunkHead]
	if !p.progress.opened {
		if next, b := p.open(b, ready); len(b) > wire.ChunkHead || next != turnWrite {
			return next, b
		}
	}
	if p.progress.sent == p.seq.Output {
		return p.finish(b)
	}
	until := p.writeEnd()
	switch {
	case ready < until:
		return turnAwait, nil
	case p.faultDue(until):
		return turnFault, nil
	}
	p.recordCached()
	return turnWrite, p.appendFrames(b, until)
}

// open appends what comes before the first token, if it is due.
func (p *reply) open(b []byte, ready int) (turn, []byte) {
	switch p.ep.config.Frames.Role {
	case config.RoleWithFirstToken:
		if ready < p.writeEnd() {
			return turnAwait, nil
		}
		p.recordCached()
		fallthrough
	case config.RoleAtOnce:
		b = p.writer.Opening(b)
	}
	p.progress.opened = true
	return turnWrite, b
}

// finish appends the next part of what follows the last token.
func (p *reply) finish(b []byte) (turn, []byte) {
	for {
		var more bool
		b, more = p.writer.Closing(b, p.progress.part, p.seq.Output, p.finishReason())
		p.progress.part++
		if len(b) > wire.ChunkHead {
			return turnWrite, b
		}
		if !more {
			p.progress.ended = true
			return turnEnd, nil
		}
	}
}

// frameEnd returns the end of the token frame that starts at a token. Hidden tokens belong to the first frame.
func (p *reply) frameEnd(from int) int {
	most, hidden := p.seq.Output, p.q.Script.Hidden
	if p.ep.config.Frames.Deliver == config.DeliverOneFrame {
		return most
	}
	if from == 0 {
		return min(hidden+1, most)
	}
	return min(from+p.ep.config.Frames.TokensPerFrame, most)
}

// writeEnd returns the end of the token frames of the next write.
func (p *reply) writeEnd() int {
	if p.ep.config.Frames.Deliver == config.DeliverOneWrite {
		return p.seq.Output
	}
	return p.frameEnd(p.progress.sent)
}

// appendFrames appends the token frames of one write.
func (p *reply) appendFrames(b []byte, until int) []byte {
	for from := p.progress.sent; from < until; {
		end := min(p.frameEnd(from), until)
		reason := ""
		if end == p.seq.Output {
			reason = p.finishReason()
		}
		before := len(b)
		b = p.writer.Tokens(b, from, end, reason)
		if len(b) > before {
			p.progress.frames++
		}
		from = end
	}
	p.progress.tokens = until - p.progress.sent
	p.progress.sent = until
	return b
}

// recordSent records that the last composed write has been sent.
func (p *reply) recordSent() {
	if p.progress.tokens == 0 {
		return
	}
	p.record.sent(p.writer.Sent, p.progress.tokens, p.progress.frames, p.ep.config.Truth.Tokens)
	p.progress.tokens, p.progress.frames = 0, 0
}
