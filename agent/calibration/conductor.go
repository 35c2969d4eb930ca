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
	// answerTime is the longest that the agent may take to get ready for a load, or to end one.
	answerTime = 30 * time.Second
	// heartbeat is how often the agent says that it lives. It is seldom: an agent gives a session up in which it hears
	// nothing for three of them, and one that is starved may hear nothing for seconds. That its process has ended is
	// known without.
	heartbeat = 10 * time.Second
)

// conductor is the coordinator of the one agent under calibration: it hands out loads and takes what the agent
// measures, to let it do all that it does in a run. It keeps none of it.
type conductor struct {
	spatev1.UnimplementedControlServiceServer
	spatev1.UnimplementedMetricsServiceServer

	server  *grpc.Server
	serving chan error
	here    chan struct{} // holds one when the agent has come
	answers chan answer
	ended   chan string // why a load failed, or "", once its totals are here

	mu      sync.Mutex
	control grpc.BidiStreamingServer[spatev1.ConnectRequest, spatev1.ConnectResponse]
	ref     *spatev1.AssignmentRef // the newest
}

// answer is what the agent says to an assignment: an empty reason takes it on.
type answer struct {
	stage  uint32
	reason string
}

// newConductor serves on a listener until close, which closes the listener too.
func newConductor(l net.Listener) *conductor {
	c := &conductor{
		server: grpc.NewServer(), serving: make(chan error, 1), here: make(chan struct{}, 1),
		answers: make(chan answer, 1), ended: make(chan string, 1),
	}
	spatev1.RegisterControlServiceServer(c.server, c)
	spatev1.RegisterMetricsServiceServer(c.server, c)
	go func() { c.serving <- c.server.Serve(l) }()
	return c
}

// close cuts the agent off.
func (c *conductor) close() {
	c.server.Stop()
	<-c.serving //nolint:errcheck // of a server that was stopped it says nothing new
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
	offer(c.here, struct{}{})
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if err := c.hear(m); err != nil {
			return err
		}
	}
}

// hear takes in what the agent says.
func (c *conductor) hear(m *spatev1.ConnectRequest) error {
	switch m := m.GetMessage().(type) {
	case *spatev1.ConnectRequest_Heartbeat:
		return c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Renewed{Renewed: &spatev1.Renewed{Number: m.Heartbeat.GetNumber()}}})
	case *spatev1.ConnectRequest_Applied:
		offer(c.answers, answer{stage: m.Applied.GetRef().GetStageIndex()})
	case *spatev1.ConnectRequest_Rejected:
		offer(c.answers, answer{m.Rejected.GetRef().GetStageIndex(), m.Rejected.GetReason()})
	}
	return nil
}

// offer hands a value over unless one waits already.
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

// ProbeClock implements the control service: both clocks are one.
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

// await blocks until the agent is connected.
func (c *conductor) await(ctx context.Context) error {
	_, err := wait(ctx, c.here, "the agent did not connect")
	return err
}

// wait takes a value, for the time of an answer at most.
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

// begin lets the agent prepare a load and arms it. It returns its start.
func (c *conductor) begin(ctx context.Context, stage *spatev1.Stage) (clock.Instant, error) {
	c.ref = &spatev1.AssignmentRef{RunId: "calibration", StageIndex: stage.GetIndex(), Revision: 1}
	err := c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Assign{Assign: &spatev1.Assign{
		Ref: c.ref, Stage: stage, Stripe: &spatev1.Stripe{Weights: []uint32{1}},
	}}})
	if err != nil {
		return 0, err
	}
	said, err := wait(ctx, c.answers, "the agent did not get ready")
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

// end cancels the load under way and waits for the agent's last word on it. It returns why the load failed, or "".
func (c *conductor) end(ctx context.Context) (failure string, err error) {
	err = c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{
		Ref: c.ref, Immediately: true, Enough: true, Reason: "measured",
	}}})
	if err != nil {
		return "", err
	}
	return wait(ctx, c.ended, "the agent did not end a load")
}
