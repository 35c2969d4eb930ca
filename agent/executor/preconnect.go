package executor

import (
	"context"
	"time"

	"github.com/spate-load/spate/clock"
)

const (
	// preconnections is how many connections are opened at a time before a closed loop's start. More would delay the
	// agent's heartbeats and the server for longer, without being faster.
	preconnections = 256
	// preconnectMargin is how long before the start no more connections are opened, so that the agent is idle at the
	// start.
	preconnectMargin = 20 * time.Millisecond
)

// preconnecting opens the connections of a closed loop's first requests before the start. If the requests opened a
// thousand connections themselves, starts would be late because of the client: the thousandth request waits for the
// work on all other connections.
type preconnecting struct {
	ctx   context.Context // ends shortly before the start
	end   context.CancelFunc
	turns chan struct{} // one element for each connection that is being opened
}

func (l *Load) preconnecting() preconnecting {
	left := clock.Until(l.start) - preconnectMargin
	ctx, end := context.WithTimeout(l.starting, max(left, 0))
	return preconnecting{ctx: ctx, end: end, turns: make(chan struct{}, preconnections)}
}

// open opens a connection for a slot's first request, and blocks until it is open or the start is near. A failure loses
// nothing: the request then opens its own connection, and reports what is wrong.
func (p *preconnecting) open(s *slot) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-p.ctx.Done():
		return
	}
	if p.ctx.Err() == nil {
		_ = s.load.Client.Preconnect(p.ctx, s.firstEndpoint())
	}
}

// firstEndpoint returns where the slot's first request goes. With least_outstanding, first requests spread evenly.
func (s *slot) firstEndpoint() int {
	if s.load.balance.chosenAtSend() {
		return s.number % len(s.load.Target().GetEndpoints())
	}
	return s.request.Endpoint
}
