// Package relayed is a coordinator's end of the two streams of a relay: it holds a session for each agent whose
// messages the relay carries, and has the snapshots of these agents added.
package relayed

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/admission"
	"github.com/spate-load/spate/coordinator/streams"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Coordinator is what the service needs of its coordinator. Its methods may be called concurrently.
type Coordinator interface {
	// ServeAgent holds an agent's session until either side ends it. It returns why, and nil if the agent did.
	ServeAgent(in <-chan FromAgent, send func(*spatev1.ConnectResponse) error, from admission.Origin) error
	// AddSnapshot makes one snapshot durable and returns the answer to it. An error ends the stream of its agent. who
	// is the authenticated peer, or zero.
	AddSnapshot(s *spatev1.Snapshot, who certs.Identity) (*spatev1.PushResponse, error)
	// AddBundle makes all of a bundle durable, or returns the indices of the members because of which it did not: their
	// relay sends these by themselves. An error ends the streams of all members.
	AddBundle(b Bundle) (alone []int, err error)
	// PushEnded returns the error with which a stream of snapshots ends after err, nil if the sender closed the stream.
	PushEnded(err error, address string) error
}

// FromAgent is a message from an agent, or the end of its control stream.
type FromAgent = streams.Received[*spatev1.ConnectRequest]

// Service is the service that relays call. When Closing is closed, its streams end with ErrClosing.
type Service struct {
	spatev1.UnimplementedRelayServiceServer
	Coordinator Coordinator
	Closing     <-chan struct{}
	ErrClosing  error
}

// Bounds on what a relay may have open, and on how much the coordinator sends it at once.
const (
	maxAgents   = 1 << 16 // control streams of agents
	batchBytes  = 1 << 20
	queueLength = 1024 // messages
)

// link is the control stream of a relay.
type link struct {
	Service
	out     chan *spatev1.ToAgent
	trusted bool // the relay has a certificate, and with it its agents have one

	// Only listen uses these.
	relay    string
	carried  map[uint64]*carried
	sessions sync.WaitGroup
}

// carried is the control stream of an agent, carried by a relay.
type carried struct {
	in   chan FromAgent
	done chan struct{} // closed when the session has ended
}

// hear passes on what the agent said, or that its stream has ended. It does not block for long: a session computes, and
// waits for nothing but the relay.
func (a *carried) hear(m FromAgent) {
	select {
	case a.in <- m:
	case <-a.done:
	}
}

// RelayControl holds the sessions of a relay's agents until the relay's stream ends.
func (s Service) RelayControl(stream spatev1.RelayService_RelayControlServer) error {
	in, quit := streams.Receive(stream.Recv)
	defer quit()
	_, trusted := certs.PeerOf(stream.Context())
	l := &link{
		Service: s, out: make(chan *spatev1.ToAgent, queueLength), carried: map[uint64]*carried{}, trusted: trusted,
	}
	err := exchange(stream.Context(), func(ctx context.Context) error { return l.listen(ctx, in) }, l.out,
		func(batch []*spatev1.ToAgent) error {
			return stream.Send(&spatev1.RelayControlResponse{Messages: batch})
		})
	if errors.Is(err, io.EOF) { // the relay has closed the stream
		return nil
	}
	return err
}

// exchange listens to a relay and sends it what comes out, in batches, until one of the two ends. It returns why, when
// both have ended.
func exchange[M proto.Message](
	ctx context.Context, listen func(context.Context) error, out <-chan M, send func(batch []M) error,
) error {
	ctx, cancel := context.WithCancelCause(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(listen(ctx))
	}()
	err := sendAll(ctx, out, send)
	cancel(err)
	<-ended
	return err
}

// sendAll sends messages in batches until ctx ends, and then those that are waiting. It returns why ctx ended.
func sendAll[M proto.Message](ctx context.Context, out <-chan M, send func(batch []M) error) error {
	for {
		batch, over := streams.Gather(ctx, out, batchBytes)
		for over != nil && len(out) > 0 {
			batch = append(batch, <-out)
		}
		if len(batch) > 0 {
			if err := send(batch); err != nil {
				return err
			}
		}
		if over != nil {
			return context.Cause(ctx)
		}
	}
}

// listen passes messages from the relay on to the sessions of its agents, until the stream or the coordinator ends. It
// returns why, when all sessions have ended.
func (l *link) listen(ctx context.Context, in <-chan streams.Received[*spatev1.RelayControlRequest]) (err error) {
	defer l.sessions.Wait()
	for {
		select {
		case m := <-in:
			if err = m.Err; err == nil {
				err = l.handle(ctx, m.Message)
			}
			if err != nil {
				l.abandon()
				return err
			}
		case <-l.Closing: // so do the sessions, each after what it has still to say
			l.sessions.Wait()
			return l.ErrClosing
		case <-ctx.Done():
			l.abandon()
			return context.Cause(ctx)
		}
	}
}

// abandon ends the sessions of a relay whose stream has ended.
func (l *link) abandon() {
	err := status.Errorf(codes.Unavailable, "the connection to relay %s ended", l.relay)
	for _, a := range l.carried {
		a.hear(FromAgent{Err: err})
	}
}

// nameOf returns the name of a relay, which the first message of a stream gives. known is empty until then.
func nameOf(known, given string) (string, error) {
	if known != "" {
		return known, nil
	}
	if err := naming.CheckName(given); err != nil {
		return "", status.Errorf(codes.InvalidArgument, "relay name %v", err)
	}
	return given, nil
}

// handle handles messages of the relay.
func (l *link) handle(ctx context.Context, m *spatev1.RelayControlRequest) (err error) {
	if l.relay, err = nameOf(l.relay, m.GetRelay()); err != nil {
		return err
	}
	for _, one := range m.GetMessages() {
		n := one.GetStream()
		a := l.carried[n]
		if a == nil && one.GetConnected() == nil {
			return status.Errorf(codes.InvalidArgument, "stream %d is not open", n)
		}
		switch e := one.GetEvent().(type) {
		case *spatev1.FromAgent_Connected:
			if err := l.open(ctx, n, e.Connected); err != nil {
				return err
			}
		case *spatev1.FromAgent_Said:
			a.hear(FromAgent{Message: e.Said})
		case *spatev1.FromAgent_Ended:
			a.hear(FromAgent{Err: streams.ErrorOf(e.Ended)})
			delete(l.carried, n)
		}
	}
	return nil
}

// open begins the session of an agent of the relay.
func (l *link) open(ctx context.Context, n uint64, agent *spatev1.AgentConnected) error {
	if l.carried[n] != nil {
		return status.Errorf(codes.InvalidArgument, "stream %d is open already", n)
	}
	if len(l.carried) == maxAgents {
		return status.Errorf(codes.ResourceExhausted, "a relay with more than %d agents", maxAgents)
	}
	from := admission.Origin{Address: agent.GetAddress(), Relay: l.relay}
	if l.trusted {
		from.Who = certs.Identity{Role: certs.Agent, Name: agent.GetCertificate()}
	}
	a := &carried{in: make(chan FromAgent), done: make(chan struct{})}
	l.carried[n] = a
	l.sessions.Go(func() {
		err := l.serve(ctx, n, a, from)
		_ = l.put(ctx, &spatev1.ToAgent{Stream: n, Event: &spatev1.ToAgent_Ended{Ended: streams.EndOf(err)}})
	})
	return nil
}

// serve holds the session of an agent of the relay.
func (l *link) serve(ctx context.Context, n uint64, a *carried, from admission.Origin) error {
	defer close(a.done)
	return l.Coordinator.ServeAgent(a.in, func(m *spatev1.ConnectResponse) error {
		return l.put(ctx, &spatev1.ToAgent{Stream: n, Event: &spatev1.ToAgent_Say{Say: m}})
	}, from)
}

// put queues a message to the relay. It blocks while the relay does not read.
func (l *link) put(ctx context.Context, m *spatev1.ToAgent) error {
	select {
	case l.out <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
