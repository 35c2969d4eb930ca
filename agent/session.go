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

	"github.com/spate-load/spate/agent/supervisor"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Defaults for terms that the coordinator does not set, and how long a connection and an answer to Hello may take.
const (
	defaultHeartbeat = time.Second
	defaultLease     = 30 * time.Second
	dialTimeout      = 5 * time.Second
	welcomeTimeout   = 5 * time.Second
)

// maxMessage bounds a message from the coordinator, in bytes. In a stripe with many handovers, each handover takes a
// few kilobytes for a thousand agents. A stage may include a vocabulary.
const maxMessage = 64 << 20

// flowWindow is how many bytes may be in flight to the agent. A fixed window avoids gRPC's estimate, which costs the
// coordinator the answer to a ping for each message that it sends.
const flowWindow = 16 << 20

// bulkAlive detects that the bulk connection is dead while the control connection is not: heartbeats do not use it, and
// a device on the path may forget it during a long pause. The timeout is long because an answer may wait behind data on
// a slow link.
var bulkAlive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 20 * time.Second, PermitWithoutStream: true}

// session is one session with the coordinator. It has two connections: one for the control stream and clock probes, and
// one for bulk data, that is the push stream and datasets. It ends when the first of these fails, or when nothing is
// heard for too long.
type session struct {
	agent    *Agent
	ctx      context.Context
	control  grpc.BidiStreamingClient[spatev1.ConnectRequest, spatev1.ConnectResponse]
	clock    *coordinatorClock
	lastCPU  time.Duration
	lastAt   clock.Instant
	beats    beats
	heard    atomic.Int64 // when the last message came
	messages chan *spatev1.ConnectResponse
	answers  answers
	// disconnect ends the session, for example because the coordinator has a wrong view of this agent: the next Hello
	// tells it what the agent has.
	disconnect context.CancelCauseFunc

	sending sync.Mutex // a stream allows one sender at a time
}

// connect holds one session. It blocks until the session ends and returns why. It calls welcomed once the coordinator
// has accepted the agent.
func (a *Agent) connect(ctx context.Context, welcomed func(*spatev1.Welcome)) error {
	address, err := a.config.Coordinator(ctx)
	if err != nil {
		return fmt.Errorf("the coordinator's address: %w", err)
	}
	options := append([]grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: dialTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithInitialWindowSize(flowWindow), grpc.WithInitialConnWindowSize(flowWindow),
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
	err = a.serveSession(ctx, conn, bulk, func(w *spatev1.Welcome) { begun = true; welcomed(w) })
	if err != nil {
		return &connectError{address: address, welcomed: begun, cause: err}
	}
	return nil
}

// serveSession introduces the agent and follows the coordinator's messages until a connection breaks.
func (a *Agent) serveSession(ctx context.Context, conn, bulk *grpc.ClientConn, welcomed func(*spatev1.Welcome)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	group, ctx := errgroup.WithContext(ctx)
	service := spatev1.NewControlServiceClient(conn)
	control, err := service.Connect(ctx)
	if err != nil {
		return err
	}
	s := &session{
		agent: a, ctx: ctx, control: control, lastCPU: clock.CPU(), lastAt: clock.Now(), disconnect: cancel,
		messages: make(chan *spatev1.ConnectResponse, maxMessages),
		answers:  answers{added: make(chan struct{}, 1)}, clock: newCoordinatorClock(a.supervisor.ClockStoodStill),
	}
	greeted := clock.Now()
	late := time.AfterFunc(welcomeTimeout, func() { cancel(errNoWelcome) })
	terms, err := s.hello()
	if !late.Stop() {
		return errNoWelcome
	}
	if err != nil {
		return err
	}
	welcomed(terms)
	a.supervisor.SetTerms(greeted, cmp.Or(max(0, terms.GetLease().AsDuration()), defaultLease))
	a.welcomed.Add(1)
	a.clock.Store(s.clock)
	defer a.clock.Store(nil)
	a.outbox.Rewind()
	a.datasets.SetService(spatev1.NewControlServiceClient(bulk))
	defer a.datasets.SetService(nil)
	interval := cmp.Or(max(0, terms.GetHeartbeatInterval().AsDuration()), defaultHeartbeat)
	s.markHeard()
	group.Go(s.receive)
	group.Go(s.handleAll)
	group.Go(s.sendAnswers)
	group.Go(func() error { return s.watchSilence(max(silentBeats*interval, minSilence)) })
	group.Go(func() error { return s.heartbeats(interval) })
	group.Go(func() error { return s.clock.Follow(ctx, service) })
	group.Go(func() error { return s.push(spatev1.NewMetricsServiceClient(bulk)) })
	_ = group.Wait()
	return context.Cause(ctx) // the first error, or that of disconnect
}

// errNoWelcome ends a session whose Hello is not answered in time.
var errNoWelcome = fmt.Errorf("no answer to Hello in %v", welcomeTimeout)

// hello introduces the agent and waits for the coordinator's terms.
func (s *session) hello() (*spatev1.Welcome, error) {
	resume, armed := s.agent.supervisor.ResumeState()
	err := s.send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Protocol: protocol, Definitions: measure.Definitions, Agent: s.agent.describe(),
		Incarnation: s.agent.incarnation, Resume: resume, Armed: armed,
	}}})
	if err != nil && !errors.Is(err, io.EOF) { // if the stream was refused, Recv returns the reason
		return nil, err
	}
	m, err := s.control.Recv()
	switch {
	case err != nil:
		return nil, err
	case m.GetWelcome() == nil:
		return nil, errors.New("the answer to Hello was not Welcome: check that it is a Spate coordinator of this " +
			"version")
	}
	return m.GetWelcome(), nil
}

// send sends a message on the control stream.
func (s *session) send(m *spatev1.ConnectRequest) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	return s.control.Send(m)
}

// maxMessages is how many messages may wait to be handled before no more are read.
const maxMessages = 64

// receive reads the coordinator's messages. It renews the lease at once, even while earlier messages wait to be
// handled.
func (s *session) receive() error {
	for {
		m, err := s.control.Recv()
		if err != nil {
			return err
		}
		s.markHeard()
		if r := m.GetRenewed(); r != nil {
			s.renewed(r, clock.Now())
			continue
		}
		select {
		case s.messages <- m:
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// renewed handles the answer to a heartbeat, which has come just now.
func (s *session) renewed(m *spatev1.Renewed, now clock.Instant) {
	if sent, known := s.beats.answered(m.GetNumber()); known {
		s.agent.supervisor.RenewLease(sent)
		s.clock.Take(sent, now, m)
	}
	if m.GetReleased() && s.agent.leaving.Load() {
		select {
		case s.agent.released <- struct{}{}:
		default: // it was released before
		}
	}
	if m.GetAllEnded() {
		s.agent.supervisor.AllEnded()
	}
}

// handleAll handles the coordinator's messages in order.
func (s *session) handleAll() error {
	for {
		select {
		case m := <-s.messages:
			s.handle(m)
		case <-s.ctx.Done():
			return s.ctx.Err()
		}
	}
}

// handle handles one message.
func (s *session) handle(m *spatev1.ConnectResponse) {
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectResponse_Assign:
		s.clock.ProbeOften()
		s.agent.supervisor.Assign(m.Assign, s)
	case *spatev1.ConnectResponse_Share:
		s.agent.supervisor.Share(m.Share)
	case *spatev1.ConnectResponse_Revise:
		s.agent.supervisor.Revise(m.Revise, s)
	case *spatev1.ConnectResponse_Arm:
		s.arm(m.Arm)
	case *spatev1.ConnectResponse_Stop:
		supervisor.LoggerOf(m.Stop.GetRef(), s.agent.config.Logger).Info("stopping", "reason", m.Stop.GetReason())
		s.agent.supervisor.Stop(m.Stop)
	case *spatev1.ConnectResponse_Measure:
		s.agent.supervisor.Measure(m.Measure, s)
	}
}

// arm converts the start to this machine's clock. It blocks until the coordinator's clock is known, which after a
// reconnect takes a moment, or until the session ends: the coordinator then repeats the message over the next one.
func (s *session) arm(m *spatev1.Arm) {
	if s.awaitClock() != nil {
		return
	}
	start, uncertainty, known := s.clock.ToLocal(clock.Instant(m.GetStartClockNs()))
	if !known {
		return // the session is about to end
	}
	s.clock.ProbeSeldom()
	// The start on both clocks, in nanoseconds: where two machines' clocks can be compared, so can their starts.
	supervisor.LoggerOf(m.GetRef(), s.agent.config.Logger).Debug("armed",
		"coordinator_clock_ns", m.GetStartClockNs(), "clock_ns", int64(start),
		"uncertainty", uncertainty)
	if err := s.agent.supervisor.Arm(m, start, uncertainty); err != nil {
		s.disconnect(err)
	}
}

// awaitClock blocks until the coordinator's clock is known, and returns an error if the session ends before.
func (s *session) awaitClock() error {
	select {
	case <-s.clock.settled:
		return nil
	case <-s.ctx.Done():
		return s.ctx.Err()
	}
}

// push sends snapshots and handles the answers to them.
func (s *session) push(service spatev1.MetricsServiceClient) error {
	group, ctx := errgroup.WithContext(s.ctx)
	stream, err := service.Push(ctx)
	if err != nil {
		return err
	}
	group.Go(func() error {
		for {
			snapshot, err := s.agent.outbox.Next(ctx)
			if err != nil {
				return err
			}
			// Rows take much memory until they are acked.
			more := snapshot.GetTotals() == nil && len(snapshot.GetRecords()) == 0
			if err := stream.Send(&spatev1.PushRequest{Snapshot: snapshot, More: more}); err != nil {
				return reason.Unsent(ctx, err)
			}
		}
	})
	group.Go(func() error {
		for {
			m, err := stream.Recv()
			if err != nil {
				return err
			}
			if snapshot := s.agent.outbox.Answered(m.GetKey()); snapshot != nil && m.GetRefused() != "" {
				s.agent.supervisor.Refused(snapshot, m.GetRefused())
			}
		}
	})
	return group.Wait()
}
