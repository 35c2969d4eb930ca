package coordinator

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/admission"
	"github.com/spate-load/spate/coordinator/streams"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// relayService is the service that relays call.
type relayService struct {
	spatev1.UnimplementedRelayServiceServer
	c *Coordinator
}

// Bounds on what a relay may have open, and on how much the coordinator sends it at once.
const (
	maxRelayed      = 1 << 16 // control streams of agents
	relayBatchBytes = 1 << 20
	relayQueue      = 1024 // messages
)

// relayLink is the control stream of a relay.
type relayLink struct {
	c       *Coordinator
	out     chan *spatev1.ToAgent
	trusted bool // the relay has a certificate, and with it its agents have one

	// Only listen uses these.
	relay    string
	carried  map[uint64]*carried
	sessions sync.WaitGroup
}

// carried is the control stream of an agent, carried by a relay.
type carried struct {
	in   chan fromAgent
	done chan struct{} // closed when the session has ended
}

// hear passes on what the agent said, or that its stream has ended. It does not block for long: a session computes, and
// waits for nothing but the relay.
func (a *carried) hear(m fromAgent) {
	select {
	case a.in <- m:
	case <-a.done:
	}
}

// RelayControl holds the sessions of a relay's agents until the relay's stream ends.
func (s relayService) RelayControl(stream spatev1.RelayService_RelayControlServer) error {
	in, quit := streams.Receive(stream.Recv)
	defer quit()
	_, trusted := certs.PeerOf(stream.Context())
	l := &relayLink{
		c: s.c, out: make(chan *spatev1.ToAgent, relayQueue), carried: map[uint64]*carried{}, trusted: trusted,
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cancel(l.listen(ctx, in))
	}()
	err := l.tell(ctx, stream)
	cancel(err)
	<-ended
	if errors.Is(err, io.EOF) { // the relay has closed the stream
		return nil
	}
	return err
}

// tell sends messages to the relay until ctx ends, and then those that are waiting. It returns why ctx ended.
func (l *relayLink) tell(ctx context.Context, stream spatev1.RelayService_RelayControlServer) error {
	for {
		batch, over := streams.Gather(ctx, l.out, relayBatchBytes)
		for over != nil && len(l.out) > 0 {
			batch = append(batch, <-l.out)
		}
		if len(batch) > 0 {
			if err := stream.Send(&spatev1.RelayControlResponse{Messages: batch}); err != nil {
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
func (l *relayLink) listen(ctx context.Context, in <-chan streams.Received[*spatev1.RelayControlRequest]) (err error) {
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
		case <-l.c.closing: // so do the sessions, each after what it has still to say
			l.sessions.Wait()
			return errClosing
		case <-ctx.Done():
			l.abandon()
			return context.Cause(ctx)
		}
	}
}

// abandon ends the sessions of a relay whose stream has ended.
func (l *relayLink) abandon() {
	err := status.Errorf(codes.Unavailable, "the connection to relay %s ended", l.relay)
	for _, a := range l.carried {
		a.hear(fromAgent{Err: err})
	}
}

// handle handles messages of the relay.
func (l *relayLink) handle(ctx context.Context, m *spatev1.RelayControlRequest) error {
	if l.relay == "" {
		if l.relay = m.GetRelay(); admission.CheckName(l.relay) != nil {
			return status.Errorf(codes.InvalidArgument, "relay name %v", admission.CheckName(l.relay))
		}
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
			a.hear(fromAgent{Message: e.Said})
		case *spatev1.FromAgent_Ended:
			a.hear(fromAgent{Err: streams.ErrorOf(e.Ended)})
			delete(l.carried, n)
		}
	}
	return nil
}

// open begins the session of an agent of the relay.
func (l *relayLink) open(ctx context.Context, n uint64, agent *spatev1.AgentConnected) error {
	if l.carried[n] != nil {
		return status.Errorf(codes.InvalidArgument, "stream %d is open already", n)
	}
	if len(l.carried) == maxRelayed {
		return status.Errorf(codes.ResourceExhausted, "a relay with more than %d agents", maxRelayed)
	}
	from := origin{address: agent.GetAddress(), relay: l.relay}
	if l.trusted {
		from.who = certs.Identity{Role: certs.Agent, Name: agent.GetCertificate()}
	}
	a := &carried{in: make(chan fromAgent), done: make(chan struct{})}
	l.carried[n] = a
	l.sessions.Go(func() {
		err := l.serve(ctx, n, a, from)
		_ = l.put(ctx, &spatev1.ToAgent{Stream: n, Event: &spatev1.ToAgent_Ended{Ended: streams.EndOf(err)}})
	})
	return nil
}

// serve holds the session of an agent of the relay.
func (l *relayLink) serve(ctx context.Context, n uint64, a *carried, from origin) (err error) {
	defer close(a.done)
	defer l.c.failCall(spatev1.RelayService_RelayControl_FullMethodName, &err)
	return controlService{c: l.c}.serve(a.in, func(m *spatev1.ConnectResponse) error {
		return l.put(ctx, &spatev1.ToAgent{Stream: n, Event: &spatev1.ToAgent_Say{Say: m}})
	}, from)
}

// put queues a message to the relay. It blocks while the relay does not read.
func (l *relayLink) put(ctx context.Context, m *spatev1.ToAgent) error {
	select {
	case l.out <- m:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// RelayPush receives the snapshots of a relay's agents until the relay closes the stream. It answers each pack of them
// before it reads the next.
func (s relayService) RelayPush(stream spatev1.RelayService_RelayPushServer) error {
	_, trusted := certs.PeerOf(stream.Context())
	in, quit := streams.Receive(stream.Recv)
	defer quit()
	ended := map[uint64]bool{} // streams of agents
	for {
		select {
		case m := <-in:
			if m.Err != nil {
				return s.c.pushEnded(m.Err, admission.AddressOf(stream.Context()))
			}
			answers := s.takePack(m.Message.GetSnapshots(), ended, trusted)
			if err := stream.Send(&spatev1.RelayPushResponse{Answers: answers}); err != nil {
				return err
			}
		case <-s.c.closing:
			return errClosing
		}
	}
}

// takePack adds snapshots to their ledgers and returns the answers. Snapshots of different agents share the ledger's
// writes, those of one are added in order. It skips the streams that have ended, and notes those that end.
func (s relayService) takePack(
	pack []*spatev1.RelayedSnapshot, ended map[uint64]bool, trusted bool,
) (answers []*spatev1.RelayedAnswer) {
	lanes := map[uint64][]*spatev1.RelayedSnapshot{}
	for _, m := range pack {
		if !ended[m.GetStream()] {
			lanes[m.GetStream()] = append(lanes[m.GetStream()], m)
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	for n, lane := range lanes {
		all.Go(func() {
			done, err := s.takeLane(lane, trusted)
			mu.Lock()
			defer mu.Unlock()
			answers = append(answers, done...)
			if err != nil {
				ended[n] = true
				answers = append(answers, &spatev1.RelayedAnswer{
					Stream: n, Event: &spatev1.RelayedAnswer_Ended{Ended: streams.EndOf(err)},
				})
			}
		})
	}
	all.Wait()
	return answers
}

// takeLane adds snapshots of one stream, up to the first that cannot be answered.
func (s relayService) takeLane(
	lane []*spatev1.RelayedSnapshot, trusted bool,
) (answers []*spatev1.RelayedAnswer, err error) {
	defer s.c.failCall(spatev1.RelayService_RelayPush_FullMethodName, &err)
	for _, m := range lane {
		var who certs.Identity
		if trusted {
			who = certs.Identity{Role: certs.Agent, Name: m.GetCertificate()}
		}
		answer, err := s.c.receiveSnapshot(m.GetSnapshot(), who)
		if err != nil {
			return answers, err
		}
		answers = append(answers, &spatev1.RelayedAnswer{
			Stream: m.GetStream(), Event: &spatev1.RelayedAnswer_Answer{Answer: answer},
		})
	}
	return answers, nil
}
