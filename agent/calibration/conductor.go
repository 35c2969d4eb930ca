package calibration

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	// leadTime is how long before its start a load is armed.
	leadTime = 100 * time.Millisecond
	// answerTime bounds how long the agent may take to prepare a load, or to end one.
	answerTime = 30 * time.Second
	// heartbeat is the heartbeat interval. It is long because an agent ends a session after three silent intervals, and
	// an agent that is starved of CPU may hear nothing for seconds. The end of its process is noticed without
	// heartbeats.
	heartbeat = 10 * time.Second
)

// conductor is the coordinator of the one agent under calibration. It assigns loads and acks measurements, so that the
// agent does everything that it does in a run. It keeps none of the measurements.
type conductor struct {
	spatev1.UnimplementedControlServiceServer
	spatev1.UnimplementedMetricsServiceServer

	server    *grpc.Server
	serving   chan error
	connected chan struct{} // holds one element when the agent has connected
	answers   chan answer
	ended     chan string // why a load failed, or "", when its totals have arrived

	mu      sync.Mutex
	control grpc.BidiStreamingServer[spatev1.ConnectRequest, spatev1.ConnectResponse]
	ref     *spatev1.AssignmentRef // the latest assignment
}

// answer is the agent's answer to an assignment. An empty reason means that the agent accepts it.
type answer struct {
	stage  uint32
	reason string
}

// newConductor serves on a listener until close, which also closes the listener.
func newConductor(l net.Listener) *conductor {
	c := &conductor{
		server: grpc.NewServer(), serving: make(chan error, 1), connected: make(chan struct{}, 1),
		answers: make(chan answer, 1), ended: make(chan string, 1),
	}
	spatev1.RegisterControlServiceServer(c.server, c)
	spatev1.RegisterMetricsServiceServer(c.server, c)
	go func() { c.serving <- c.server.Serve(l) }()
	return c
}

// close disconnects the agent and stops serving.
func (c *conductor) close() {
	c.server.Stop()
	<-c.serving //nolint:errcheck // the server was stopped, so the error is not news
}

// Connect implements the control service.
func (c *conductor) Connect(stream grpc.BidiStreamingServer[spatev1.ConnectRequest, spatev1.ConnectResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	err := stream.Send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Welcome{Welcome: &spatev1.Welcome{
		HeartbeatInterval: durationpb.New(heartbeat), Lease: durationpb.New(time.Hour), Coordinator: "calibration",
	}}})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.control = stream
	c.mu.Unlock()
	offer(c.connected, struct{}{})
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := c.handle(m); err != nil {
			return err
		}
	}
}

// handle handles a message of the agent.
func (c *conductor) handle(m *spatev1.ConnectRequest) error {
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectRequest_Heartbeat:
		return c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Renewed{
			Renewed: &spatev1.Renewed{Number: m.Heartbeat.GetNumber()},
		}})
	case *spatev1.ConnectRequest_Applied:
		offer(c.answers, answer{stage: m.Applied.GetRef().GetStageIndex()})
	case *spatev1.ConnectRequest_Rejected:
		offer(c.answers, answer{m.Rejected.GetRef().GetStageIndex(), m.Rejected.GetReason()})
	}
	return nil
}

// offer sends a value, unless one is already waiting.
func offer[T any](c chan T, v T) {
	select {
	case c <- v:
	default:
	}
}

// Push implements the metrics service.
func (c *conductor) Push(stream grpc.BidiStreamingServer[spatev1.PushRequest, spatev1.PushResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := stream.Send(&spatev1.PushResponse{Key: m.GetSnapshot().GetKey()}); err != nil {
			return err
		}
		if t := m.GetSnapshot().GetTotals(); t != nil {
			offer(c.ended, t.GetFailure())
		}
	}
}

// ProbeClock implements the control service. Both sides have the same clock.
func (c *conductor) ProbeClock(context.Context, *spatev1.ProbeClockRequest) (*spatev1.ProbeClockResponse, error) {
	now := int64(clock.Now())
	return &spatev1.ProbeClockResponse{ReceivedClockNs: now, SentClockNs: now}, nil
}

func (c *conductor) send(m *spatev1.ConnectResponse) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.control == nil {
		return errors.New("the agent is not connected")
	}
	return c.control.Send(m)
}

// awaitAgent blocks until the agent is connected.
func (c *conductor) awaitAgent(ctx context.Context) error {
	_, err := wait(ctx, c.connected, "the agent did not connect")
	return err
}

// wait receives a value, within answerTime.
func wait[T any](ctx context.Context, from <-chan T, otherwise string) (v T, err error) {
	late := time.NewTimer(answerTime)
	defer late.Stop()
	select {
	case v = <-from:
		return v, nil
	case <-ctx.Done():
		return v, context.Cause(ctx)
	case <-late.C:
		return v, fmt.Errorf("%s within %v", otherwise, answerTime)
	}
}

// startLoad makes the agent prepare a load, and arms it. It returns the load's start.
func (c *conductor) startLoad(ctx context.Context, stage *spatev1.Stage) (clock.Instant, error) {
	c.ref = &spatev1.AssignmentRef{RunId: "calibration", StageIndex: stage.GetIndex(), Revision: 1}
	err := c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Assign{Assign: &spatev1.Assign{
		Ref: c.ref, Stage: stage, Stripe: &spatev1.Stripe{Weights: []uint32{1}},
	}}})
	if err != nil {
		return 0, err
	}
	said, err := wait(ctx, c.answers, "the agent did not become ready")
	switch {
	case err != nil:
		return 0, err
	case said.reason != "":
		return 0, errors.New(said.reason)
	}
	start := clock.Now().Add(leadTime)
	return start, c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Arm{Arm: &spatev1.Arm{Ref: c.ref,
		StartClockNs: int64(start)}}})
}

// stopLoad cancels the load under way and waits for its totals. It returns why the load failed, or "".
func (c *conductor) stopLoad(ctx context.Context) (failure string, err error) {
	err = c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
		Ref: c.ref, Immediately: true, Enough: true, Reason: "measured",
	}}})
	if err != nil {
		return "", err
	}
	return wait(ctx, c.ended, "the agent did not end a load")
}
