package agent

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// skew is how far the coordinator's clock is ahead of the agent's.
const skew = 1234 * time.Second

// coordinator is a coordinator under the control of a test.
type coordinator struct {
	spatev1.UnimplementedControlServiceServer
	spatev1.UnimplementedMetricsServiceServer
	t        *testing.T
	agent    *Agent
	lease    time.Duration
	interval time.Duration                // of heartbeats
	messages chan *spatev1.ConnectRequest // except heartbeats

	mu         sync.Mutex
	away       bool          // refuses connections
	cut        chan struct{} // closed to break all streams
	control    grpc.BidiStreamingServer[spatev1.ConnectRequest, spatev1.ConnectResponse]
	hellos     int
	mute       bool
	slept      time.Duration // how long the agent's clock seems to have stood still
	hold       chan struct{} // clock probes are answered once it is closed; nil: at once
	allEnded   bool          // answers that the load of all agents has ended
	heartbeats []*spatev1.Heartbeat
	pushed     []*spatev1.Snapshot                    // all, in order, with repetitions
	answer     func(*spatev1.Snapshot) (string, bool) // returns a refusal, and whether to answer at all
}

func newCoordinator(t *testing.T) *coordinator {
	return &coordinator{
		t: t, lease: time.Minute, interval: 20 * time.Millisecond,
		messages: make(chan *spatev1.ConnectRequest, 100), cut: make(chan struct{}),
		answer: func(*spatev1.Snapshot) (string, bool) { return "", true },
	}
}

// start serves the coordinator and runs an agent for it. The returned function shuts the agent down.
func (c *coordinator) start(config Config) (shutdown func() error) {
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	spatev1.RegisterControlServiceServer(server, c)
	spatev1.RegisterMetricsServiceServer(server, c)
	go func() { _ = server.Serve(listener) }()
	config.Name = "a"
	config.Coordinator = func(context.Context) (string, error) { return "passthrough:///memory", nil }
	config.Logger = slog.New(slog.DiscardHandler)
	config.DialOptions = []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn,
			error) {
			return listener.DialContext(ctx)
		}),
	}
	a, err := New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	c.agent = a
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	shutdown = sync.OnceValue(func() error { cancel(); return <-ended })
	c.t.Cleanup(func() { _ = shutdown(); c.leave(); server.Stop() })
	return shutdown
}

func (c *coordinator) Connect(stream grpc.BidiStreamingServer[spatev1.ConnectRequest, spatev1.ConnectResponse]) error {
	cut, err := c.enter()
	if err != nil {
		return err
	}
	hello, err := stream.Recv()
	if err != nil {
		return err
	}
	err = stream.Send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Welcome{Welcome: &spatev1.Welcome{
		HeartbeatInterval: durationpb.New(c.interval), Lease: durationpb.New(c.lease), Coordinator: "c",
	}}})
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.control = stream
	c.hellos++
	c.mu.Unlock()
	c.messages <- hello
	broken := make(chan error, 1)
	go func() { broken <- c.listen(stream) }()
	select {
	case err := <-broken:
		return err
	case <-cut:
		return status.Error(codes.Unavailable, "cut")
	}
}

func (c *coordinator) listen(stream grpc.BidiStreamingServer[spatev1.ConnectRequest, spatev1.ConnectResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetHeartbeat() == nil {
			c.messages <- m
			continue
		}
		if err := c.beat(stream, m.GetHeartbeat()); err != nil {
			return err
		}
	}
}

// beat answers a heartbeat, unless the coordinator is mute.
func (c *coordinator) beat(
	stream grpc.BidiStreamingServer[spatev1.ConnectRequest, spatev1.ConnectResponse], h *spatev1.Heartbeat,
) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heartbeats = append(c.heartbeats, h)
	if c.mute {
		return nil
	}
	return stream.Send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Renewed{Renewed: &spatev1.Renewed{
		Number: h.GetNumber(), AllEnded: c.allEnded && h.GetEnded() != nil,
	}}})
}

// setMute makes the coordinator stop answering heartbeats, or answer them again.
func (c *coordinator) setMute(mute bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mute = mute
}

func (c *coordinator) Push(stream grpc.BidiStreamingServer[spatev1.PushRequest, spatev1.PushResponse]) error {
	cut, err := c.enter()
	if err != nil {
		return err
	}
	broken := make(chan error, 1)
	go func() { broken <- c.takeIn(stream) }()
	select {
	case err := <-broken:
		return err
	case <-cut:
		return status.Error(codes.Unavailable, "cut")
	}
}

func (c *coordinator) takeIn(stream grpc.BidiStreamingServer[spatev1.PushRequest, spatev1.PushResponse]) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.pushed = append(c.pushed, m.GetSnapshot())
		refused, answer := c.answer(m.GetSnapshot())
		c.mu.Unlock()
		if !answer {
			continue
		}
		if err := stream.Send(&spatev1.PushResponse{Key: m.GetSnapshot().GetKey(), Refused: refused}); err != nil {
			return err
		}
	}
}

func (c *coordinator) ProbeClock(context.Context, *spatev1.ProbeClockRequest) (*spatev1.ProbeClockResponse, error) {
	if _, err := c.enter(); err != nil {
		return nil, err
	}
	c.mu.Lock()
	hold, slept := c.hold, c.slept
	c.mu.Unlock()
	if hold != nil {
		<-hold
	}
	now := int64(clock.Now().Add(skew + slept))
	return &spatev1.ProbeClockResponse{ReceivedClockNs: now, SentClockNs: now}, nil
}

// enter accepts a call unless the coordinator is away.
func (c *coordinator) enter() (cut <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away {
		return nil, status.Error(codes.Unavailable, "away")
	}
	return c.cut, nil
}

// leave breaks all streams and refuses new ones.
func (c *coordinator) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away = true
	close(c.cut)
	c.cut = make(chan struct{})
}

// comeBack accepts agents again, with another way to answer snapshots.
func (c *coordinator) comeBack(answer func(*spatev1.Snapshot) (string, bool)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.away, c.answer = false, answer
}

// send sends a message to the agent.
func (c *coordinator) send(m *spatev1.ConnectResponse) {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.control.Send(m); err != nil {
		c.t.Fatal(err)
	}
}

func (c *coordinator) assign(a *spatev1.Assign) {
	c.t.Helper()
	c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Assign{Assign: a}})
}

// arm arms an assignment with a start 30 ms from now.
func (c *coordinator) arm(ref *spatev1.AssignmentRef) {
	c.t.Helper()
	c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Arm{Arm: &spatev1.Arm{
		Ref: ref, StartClockNs: int64(clock.Now().Add(skew + 30*time.Millisecond)),
	}}})
}

func (c *coordinator) revise(ref *spatev1.AssignmentRef, stripe *spatev1.Stripe) {
	c.t.Helper()
	c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Revise{Revise: &spatev1.Revise{Ref: ref,
		Stripe: stripe}}})
}

func (c *coordinator) stop(ref *spatev1.AssignmentRef) {
	c.t.Helper()
	c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Stop{Stop: &spatev1.Stop{Ref: ref,
		Immediately: true}}})
}

// next returns the agent's next message.
func (c *coordinator) next() *spatev1.ConnectRequest {
	c.t.Helper()
	select {
	case m := <-c.messages:
		return m
	case <-time.After(20 * time.Second):
		c.t.Fatal("the agent says nothing")
		return nil
	}
}

// begin takes an assignment through to its start.
func (c *coordinator) begin(a *spatev1.Assign) {
	c.t.Helper()
	c.assign(a)
	if m := c.next(); m.GetApplied() == nil {
		c.t.Fatalf("got %v instead of Applied", m)
	}
	c.arm(a.GetRef())
}

// snapshots returns what has been pushed so far.
func (c *coordinator) snapshots() []*spatev1.Snapshot {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]*spatev1.Snapshot(nil), c.pushed...)
}

// totals waits for the totals of a stage, and checks that only one snapshot has them.
func (c *coordinator) totals(stage uint32) *spatev1.Totals {
	c.t.Helper()
	var found *spatev1.Totals
	enginetest.Eventually(c.t, "totals", func() bool {
		for _, s := range c.snapshots() {
			if s.GetTotals() != nil && s.GetStageIndex() == stage {
				found = s.GetTotals()
			}
		}
		return found != nil
	})
	return found
}

// once returns the snapshots by sequence, each once, and checks that repeated ones are equal.
func (c *coordinator) once() []*spatev1.Snapshot {
	c.t.Helper()
	bySequence := map[uint64]*spatev1.Snapshot{}
	for _, s := range c.snapshots() {
		if before := bySequence[s.GetKey().GetSequence()]; before != nil && !proto.Equal(before, s) {
			c.t.Errorf("snapshot %d is not what it was", s.GetKey().GetSequence())
		}
		bySequence[s.GetKey().GetSequence()] = s
	}
	all := make([]*spatev1.Snapshot, len(bySequence))
	for sequence, s := range bySequence {
		if sequence == 0 || sequence > uint64(len(all)) {
			c.t.Fatalf("sequence %d of %d snapshots", sequence, len(all))
		}
		all[sequence-1] = s
	}
	return all
}
