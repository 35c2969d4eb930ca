package fleet

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Origin is where an agent's messages come from.
type Origin struct {
	Address string
	Who     certs.Identity // identity in the agent's certificate; zero without one
}

// Session is the control stream of one agent. The coordinator's lock guards all but the channels.
type Session struct {
	Origin
	// Info and Incarnation are from Hello, with which the agent introduced itself.
	Info        *spatev1.AgentInfo
	Incarnation uint64
	Hello       *spatev1.Hello
	// Heard is when the last message came. Heartbeat is the last one, nil before the first.
	Heard     clock.Instant
	Heartbeat *spatev1.Heartbeat
	// Outbox has the messages to be sent to the agent.
	Outbox chan *spatev1.ConnectResponse
	// Gone is closed when the session has ended, for Reason.
	Gone   chan struct{}
	Reason error
}

// outboxSize is more than the number of messages that an agent is ever sent before it answers.
const outboxSize = 64

// NewSession returns the session of an agent that has just introduced itself.
func NewSession(h *spatev1.Hello, from Origin) *Session {
	return &Session{
		Origin: from, Info: h.GetAgent(), Incarnation: h.GetIncarnation(), Hello: h, Heard: clock.Now(),
		Outbox: make(chan *spatev1.ConnectResponse, outboxSize), Gone: make(chan struct{}),
	}
}

// Name returns the agent's name.
func (s *Session) Name() string { return s.Info.GetName() }

// End tells the session's handler to return. The first reason is kept.
func (s *Session) End(reason error) {
	if s.Reason == nil {
		s.Reason = reason
		close(s.Gone)
	}
}

// Send queues a message. It never blocks: if the queue is full because the agent does not read, the session ends.
func (s *Session) Send(m *spatev1.ConnectResponse) {
	select {
	case s.Outbox <- m:
	default:
		s.End(status.Error(codes.ResourceExhausted, "the agent does not read its control stream"))
	}
}
