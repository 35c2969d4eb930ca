package simulator

import (
	"crypto/tls"
	"math/rand/v2"
	"net/http"
	"strconv"

	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/simulator/wire"
)

// chooseFault returns the fault of a request, or nil. It draws once per fault whatever the result, so that later draws
// do not depend on the result.
func chooseFault(faults []config.Fault, r *rand.Rand) *config.Fault {
	var hit *config.Fault
	for i := range faults {
		f := &faults[i]
		if drawn := r.Float64(); hit == nil && drawn < f.Probability {
			hit = f
		}
	}
	return hit
}

// faultDue reports whether the fault strikes before the frame that ends at this token.
func (p *reply) faultDue(until int) bool {
	return p.fault != nil && until > min(p.fault.AfterTokens, p.seq.Output-1)
}

// applyFault lets the fault happen if it is due before the frame that ends at this token.
func (p *reply) applyFault(until int) error {
	if !p.faultDue(until) {
		return nil
	}
	f := p.fault
	p.fault = nil
	switch f.Kind {
	case config.FaultStall:
		return p.pauseFor(f.Pause)
	case config.FaultGarbageFrame:
		return p.endWith(p.writer.Broken(p.buf[:wire.ChunkHead]))
	case config.FaultErrorFrame:
		return p.endWith(p.writer.Failure(p.buf[:wire.ChunkHead], api.ServerError()))
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
	if b := p.writer.Mark(p.buf[:wire.ChunkHead]); len(b) > wire.ChunkHead {
		if err := p.write(b); err != nil {
			return err
		}
	}
	return errFault
}

// abort ends the connection in the middle of the response. Of a body that is not a stream, half is sent.
func (p *reply) abort(kind config.FaultKind) {
	if !p.q.Stream {
		body := p.writer.Whole(p.buf[:wire.ChunkHead], p.seq.Output, p.finishReason())
		p.w.Header().Set("Content-Length", strconv.Itoa(len(body)-wire.ChunkHead))
		_ = p.write(body[:wire.ChunkHead+(len(body)-wire.ChunkHead)/2]) // the connection ends here anyway
	}
	if kind == config.FaultReset {
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
