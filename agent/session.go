package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Terms of a session whose coordinator names none, and how long an answer to Hello may take.
const (
	defaultHeartbeat = time.Second
	defaultLease     = 30 * time.Second
	welcomeTimeout   = 10 * time.Second
)

// session is one connection to the coordinator: a control stream, a push stream and clock probes. It ends with the first of them
// that fails.
type session struct {
	agent   *Agent
	ctx     context.Context
	control grpc.BidiStreamingClient[spatev1.ConnectRequest, spatev1.ConnectResponse]
	clock   offsetClock
	lastCPU time.Duration
	lastAt  clock.Instant

	sending sync.Mutex // a stream takes one sender at a time
}

// connect holds one session. It blocks until the session ends and returns why. welcomed is called once the coordinator has
// accepted the agent.
func (a *Agent) connect(ctx context.Context, welcomed func(*spatev1.Welcome)) error {
	address, err := a.config.Coordinator(ctx)
	if err != nil {
		return fmt.Errorf("the coordinator's address: %w", err)
	}
	conn, err := grpc.NewClient(address, a.config.DialOptions...)
	if err != nil {
		return fmt.Errorf("coordinator %s: %w", address, err)
	}
	defer conn.Close()
	if err := a.attend(ctx, conn, welcomed); err != nil {
		return fmt.Errorf("coordinator %s: %w", address, err)
	}
	return nil
}

// attend introduces the agent and does what the coordinator says until the connection breaks.
func (a *Agent) attend(ctx context.Context, conn *grpc.ClientConn, welcomed func(*spatev1.Welcome)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	service := spatev1.NewControlServiceClient(conn)
	control, err := service.Connect(ctx)
	if err != nil {
		return err
	}
	s := &session{agent: a, ctx: ctx, control: control, lastCPU: cpuTime(), lastAt: clock.Now()}
	s.clock.init()
	terms, err := s.hello()
	if err != nil {
		return err
	}
	welcomed(terms)
	a.welcomed.Add(1)
	now := clockNow(s.clock.now)
	a.clock.Store(&now)
	defer a.clock.Store(nil)
	a.outbox.rewind()
	a.datasets.attend(service)
	defer a.datasets.attend(nil)
	group.Go(s.receive)
	group.Go(func() error { return s.heartbeats(terms) })
	group.Go(func() error { return s.clock.follow(ctx, service) })
	group.Go(func() error { return s.push(spatev1.NewMetricsServiceClient(conn)) })
	return group.Wait()
}

// hello introduces the agent and waits for the terms.
func (s *session) hello() (*spatev1.Welcome, error) {
	err := s.send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Protocol: protocol, Agent: s.agent.describe(), Incarnation: s.agent.incarnation, Resume: s.agent.desk.ref(),
	}}})
	if err != nil {
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

// receive does what the coordinator says.
func (s *session) receive() error {
	for {
		m, err := s.control.Recv()
		if err != nil {
			return err
		}
		switch m := m.GetMessage().(type) {
		case *spatev1.ConnectResponse_Assign:
			s.agent.desk.assign(m.Assign, s)
		case *spatev1.ConnectResponse_Arm:
			s.arm(m.Arm)
		case *spatev1.ConnectResponse_Stop:
			s.agent.config.Logger.Info("stopping", "assignment", describe(m.Stop.GetRef()), "reason", m.Stop.GetReason())
			s.agent.desk.stop(m.Stop)
		case *spatev1.ConnectResponse_Measure:
			s.agent.desk.measure(m.Measure)
		}
	}
}

// arm maps the start to this machine's clock.
func (s *session) arm(m *spatev1.Arm) {
	o, known := s.clock.now()
	if !known {
		s.agent.config.Logger.Error("armed before the coordinator's clock is known", "assignment", describe(m.GetRef()))
		return
	}
	if err := s.agent.desk.arm(m.GetRef(), o.Here(clock.Instant(m.GetStartClockNs())), o.Uncertainty); err != nil {
		s.agent.config.Logger.Error("cannot be armed", "error", err)
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

// heartbeats says that the agent lives, at once and then at the interval told.
func (s *session) heartbeats(terms *spatev1.Welcome) error {
	tick := time.NewTicker(cmp.Or(max(0, terms.GetHeartbeatInterval().AsDuration()), defaultHeartbeat))
	defer tick.Stop()
	for {
		err := s.send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: s.heartbeat()}})
		if err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// heartbeat says how the agent does.
func (s *session) heartbeat() *spatev1.Heartbeat {
	h := &spatev1.Heartbeat{
		InFlight:         s.agent.desk.inFlight(),
		UnackedSnapshots: uint32(s.agent.outbox.waiting()),
	}
	cpu, at := cpuTime(), clock.Now()
	if passed := at.Sub(s.lastAt); passed > 0 {
		h.CpuCores = (cpu - s.lastCPU).Seconds() / passed.Seconds()
	}
	s.lastCPU, s.lastAt = cpu, at
	if o, known := s.clock.now(); known {
		h.ClockOffsetNs, h.ClockUncertaintyNs = o.Nanos, o.Uncertainty.Nanoseconds()
	}
	return h
}

// push sends snapshots and lets go of those that are answered.
func (s *session) push(service spatev1.MetricsServiceClient) error {
	group, ctx := errgroup.WithContext(s.ctx)
	stream, err := service.Push(ctx)
	if err != nil {
		return err
	}
	group.Go(func() error {
		for {
			snapshot, err := s.agent.outbox.next(ctx)
			if err != nil {
				return err
			}
			if err := stream.Send(&spatev1.PushRequest{Snapshot: snapshot}); err != nil {
				return err
			}
		}
	})
	group.Go(func() error {
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			s.answered(m)
		}
	})
	return group.Wait()
}

// answered takes in an ack or a refusal.
func (s *session) answered(m *spatev1.PushResponse) {
	snapshot := s.agent.outbox.answered(m.GetKey())
	if snapshot == nil || m.GetRefused() == "" {
		return
	}
	s.agent.config.Logger.Error("snapshot refused: the stage cannot be complete",
		"window", snapshot.GetWindow(), "sequence", m.GetKey().GetSequence(), "reason", m.GetRefused())
	s.agent.desk.refused(snapshot, m.GetRefused())
}
