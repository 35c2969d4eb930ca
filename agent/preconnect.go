package agent

import (
	"context"
	"time"

	"github.com/spate-load/spate/clock"
)

const (
	// preconnections is how many connections are opened at a time before a closed loop's start. More would keep the
	// agent's heartbeats and the server waiting for longer, without being faster.
	preconnections = 256
	// preconnectMargin is how long before the start no connection is opened any more, so that the start finds the agent
	// at rest.
	preconnectMargin = 20 * time.Millisecond
)

// preconnecting opens the connections of a closed loop's first requests before the start. Opened by the requests
// themselves, a thousand connections at once make starts late, by a time that is the client's own: the thousandth
// request waits for the work on all others' connections.
type preconnecting struct {
	ctx   context.Context // ends shortly before the start
	end   context.CancelFunc
	turns chan struct{} // holds one element for each connection that is being opened
}

func (l *load) preconnecting() preconnecting {
	left := clock.Until(l.start) - preconnectMargin
	ctx, end := context.WithTimeout(l.starting, max(left, 0))
	return preconnecting{ctx: ctx, end: end, turns: make(chan struct{}, preconnections)}
}

// open opens a connection for a slot's first request, and blocks until it stands, or the start is near. Nothing is lost
// if it fails: the request opens a connection of its own then, and tells what is wrong.
func (p *preconnecting) open(s *slot) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-p.ctx.Done():
		return
	}
	if p.ctx.Err() == nil {
		_ = s.load.client.Preconnect(p.ctx, s.firstEndpoint())
	}
}

// firstEndpoint is where the slot's first request goes. Those that go where the fewest are in flight spread evenly at
// first.
func (s *slot) firstEndpoint() int {
	if s.load.balance.live() {
		return s.number % len(s.load.target().GetEndpoints())
	}
	return s.request.Endpoint
}
