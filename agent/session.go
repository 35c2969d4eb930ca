package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Terms of a session whose coordinator names none, and how long a connection and an answer to Hello may take.
const (
	defaultHeartbeat = time.Second
	defaultLease     = 30 * time.Second
	dialTimeout      = 5 * time.Second
	welcomeTimeout   = 5 * time.Second
)

// maxMessage bounds what the coordinator may say at once, in bytes. A share of which much has changed hands takes a few
// kilobytes for each handover of a thousand agents, and a stage may bring a vocabulary.
const maxMessage = 64 << 20

// bulkAlive finds out that the connection for what is large is dead while the other is not: heartbeats do not go over
// it, and what stands between may have forgotten it in a long pause. An answer may wait behind data on a thin line.
var bulkAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 20 * time.Second, PermitWithoutStream: true}

// session is one attendance of the coordinator: a connection with the control stream and clock probes, and one for what
// is large, with the push stream and datasets. It ends with the first of them that fails, or when nothing is heard for
// too long.
type session struct {
	agent   *Agent
	ctx     context.Context
	control grpc.BidiStreamingClient[spatev1.ConnectRequest, spatev1.ConnectResponse]
	clock   offsetClock
	lastCPU time.Duration
	lastAt  clock.Instant
	beats   beats
	heard   atomic.Int64 // when the last message came
	orders  chan *spatev1.ConnectResponse
	wrong   chan error // why the session is given up

	sending sync.Mutex // a stream takes one sender at a time
}

// connect holds one session. It blocks until the session ends and returns why. welcomed is called once the coordinator
// has accepted the agent.
func (a *Agent) connect(ctx context.Context, welcomed func(*spatev1.Welcome)) error {
	address, err := a.config.Coordinator(ctx)
	if err != nil {
		return fmt.Errorf("the coordinator's address: %w", err)
	}
	options := append([]grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: dialTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
	}, a.config.DialOptions...)
	conn, err := grpc.NewClient(address, options...)
	if err != nil {
		return fmt.Errorf("coordinator %s: %w", plainAddress(address), err)
	}
	defer conn.Close()
	bulk, err := grpc.NewClient(address, append(append(options, grpc.WithKeepaliveParams(bulkAlive)),
		a.config.BulkOptions...)...)
	if err != nil {
		return fmt.Errorf("coordinator %s: %w", plainAddress(address), err)
	}
	defer bulk.Close()
	begun := false
	err = a.attend(ctx, conn, bulk, func(w *spatev1.Welcome) { begun = true; welcomed(w) })
	if err != nil {
		return &connectError{address: address, welcomed: begun, cause: err}
	}
	return nil
}

// attend introduces the agent and does what the coordinator says until a connection breaks.
func (a *Agent) attend(ctx context.Context, conn, bulk *grpc.ClientConn, welcomed func(*spatev1.Welcome)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	service := spatev1.NewControlServiceClient(conn)
	control, err := service.Connect(ctx)
	if err != nil {
		return err
	}
	s := &session{
		agent: a, ctx: ctx, control: control, lastCPU: cpuTime(), lastAt: clock.Now(),
		orders: make(chan *spatev1.ConnectResponse, mostOrders), wrong: make(chan error, 1),
	}
	s.clock.init(a.desk.stoodStill)
	greeted := clock.Now()
	terms, err := s.hello()
	if err != nil {
		return err
	}
	welcomed(terms)
	a.desk.greeted(greeted, cmp.Or(max(0, terms.GetLease().AsDuration()), defaultLease))
	a.welcomed.Add(1)
	now := clockNow(s.clock.now)
	a.clock.Store(&now)
	defer a.clock.Store(nil)
	a.outbox.rewind()
	a.datasets.attend(spatev1.NewControlServiceClient(bulk))
	defer a.datasets.attend(nil)
	interval := cmp.Or(max(0, terms.GetHeartbeatInterval().AsDuration()), defaultHeartbeat)
	s.hear()
	group.Go(s.receive)
	group.Go(s.work)
	group.Go(s.stand)
	group.Go(func() error { return s.watch(patience(interval)) })
	group.Go(func() error { return s.heartbeats(interval) })
	group.Go(func() error { return s.clock.follow(ctx, service) })
	group.Go(func() error { return s.push(spatev1.NewMetricsServiceClient(bulk)) })
	return group.Wait()
}

// hello introduces the agent and waits for the terms.
func (s *session) hello() (*spatev1.Welcome, error) {
	resume, armed := s.agent.desk.resume()
	err := s.send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Protocol: protocol, Definitions: measure.Definitions, Agent: s.agent.describe(),
		Incarnation: s.agent.incarnation, Resume: resume, Armed: armed,
	}}})
	if err != nil && !errors.Is(err, io.EOF) { // of a stream that was refused, Recv says why
		return nil, err
	}
	type reply struct {
		message *spatev1.ConnectResponse
		err     error
	}
	replies := make(chan reply, 1)
	go func() {
		m, err := s.control.Recv()
		replies <- reply{m, err}
	}()
	select {
	case r := <-replies:
		if r.err != nil {
			return nil, r.err
		}
		if r.message.GetWelcome() == nil {
			return nil, errors.New("it did not answer Hello with Welcome; is it a Spate coordinator of this version?")
		}
		return r.message.GetWelcome(), nil
	case <-time.After(welcomeTimeout):
		return nil, fmt.Errorf("no answer to Hello in %v", welcomeTimeout)
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

// send sends a message on the control stream.
func (s *session) send(m *spatev1.ConnectRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.control.Send(m)
}

// unsent returns why a message could not be sent. Of a stream that has ended only Recv says why: it is waited until
// that has ended ctx.
func unsent(ctx context.Context, err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	<-ctx.Done()
	return ctx.Err()
}

// mostOrders is how many messages wait to be obeyed before no more are heard.
const mostOrders = 64

// receive hears what the coordinator says. A lease is renewed at once, however long it takes to do what was said
// before.
func (s *session) receive() error {
	for {
		m, err := s.control.Recv()
		if err != nil {
			return err
		}
		s.hear()
		if r := m.GetRenewed(); r != nil {
			s.renewed(r)
			continue
		}
		select {
		case s.orders <- m:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// renewed takes in the answer to a heartbeat.
func (s *session) renewed(m *spatev1.Renewed) {
	if sent, known := s.beats.answered(m.GetNumber()); known {
		s.agent.desk.renew(sent)
	}
	if m.GetAllEnded() {
		s.agent.desk.allEnded()
	}
}

// work does what the coordinator says, in its order.
func (s *session) work() error {
	for {
		select {
		case m := <-s.orders:
			s.obey(m)
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// obey does what one message says.
func (s *session) obey(m *spatev1.ConnectResponse) {
	desk := s.agent.desk
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectResponse_Assign:
		s.clock.hurry()
		desk.assign(m.Assign, s)
	case *spatev1.ConnectResponse_Revise:
		desk.revise(m.Revise, s)
	case *spatev1.ConnectResponse_Arm:
		s.arm(m.Arm)
	case *spatev1.ConnectResponse_Stop:
		s.agent.config.Logger.Info("stopping", "assignment", describe(m.Stop.GetRef()), "reason", m.Stop.GetReason())
		desk.stop(m.Stop)
	case *spatev1.ConnectResponse_Measure:
		desk.measure(m.Measure)
	}
}

// arm maps the start to this machine's clock, as soon as the coordinator's is known: after a reconnect that takes a
// moment.
func (s *session) arm(m *spatev1.Arm) {
	select {
	case <-s.clock.settled:
		s.armNow(m)
	default:
		go func() {
			select {
			case <-s.clock.settled:
				s.armNow(m)
			case <-s.ctx.Done(): // the coordinator says it again over the next connection
			}
		}()
	}
}

func (s *session) armNow(m *spatev1.Arm) {
	start, uncertainty, known := s.clock.here(clock.Instant(m.GetStartClockNs()))
	if !known {
		return // the session's end follows
	}
	// Both clocks' start, in nanoseconds: where the clocks of two machines can be compared, so can the starts.
	s.agent.config.Logger.Debug("armed", "assignment", describe(m.GetRef()), "coordinator_clock_ns",
		m.GetStartClockNs(), "clock_ns", int64(start),
		"uncertainty", uncertainty)
	if err := s.agent.desk.arm(m.GetRef(), start, uncertainty); err != nil {
		s.giveUp(err)
	}
}

// giveUp ends the session: the coordinator has something wrong about this agent, and learns what the agent has from the
// next Hello.
func (s *session) giveUp(why error) {
	select {
	case s.wrong <- why:
	default: // it ends already
	}
}

// stand returns why the session was given up, or when it has ended.
func (s *session) stand() error {
	select {
	case why := <-s.wrong:
		return why
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// applied tells the coordinator that an assignment is ready, once the clock is known: the start depends on it.
func (s *session) applied(ref *spatev1.AssignmentRef, found *spatev1.Preparation) {
	select {
	case <-s.clock.settled:
	case <-s.ctx.Done():
		return
	}
	o, _ := s.clock.now()
	s.answer(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: &spatev1.Applied{
		Ref: ref, ClockOffsetNs: o.Nanos, ClockUncertaintyNs: o.Uncertainty.Nanoseconds(), Preparation: found,
	}}})
}

// rejected tells the coordinator why an assignment is not taken on.
func (s *session) rejected(ref *spatev1.AssignmentRef, kind spatev1.FailureKind, reason string) {
	s.agent.config.Logger.Info("assignment rejected", "assignment", describe(ref), "reason", reason)
	s.answer(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Rejected{Rejected: &spatev1.Rejected{
		Ref: ref, Reason: reason, Kind: kind,
	}}})
}

// answer sends what needs no error: a broken stream ends the session by itself.
func (s *session) answer(m *spatev1.ConnectRequest) {
	if err := s.send(m); err != nil {
		s.agent.config.Logger.Debug("answer not sent", "error", err)
	}
}
