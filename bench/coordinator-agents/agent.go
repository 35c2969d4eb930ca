package main

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// sealDelay is how long after the end of a window an agent sends it.
const sealDelay = 250 * time.Millisecond

// agent is one simulated agent: a connection with a control stream, and one with a push stream.
type agent struct {
	*crowd
	number      int
	incarnation uint64
	info        *spatev1.AgentInfo

	control spatev1.ControlService_ConnectClient
	sending sync.Mutex // of control
	beats   uint64
	beaten  clock.Instant   // when the last heartbeat was sent
	sent    []clock.Instant // when each snapshot was sent, by window
}

// attend runs the agent.
func (a *agent) attend(ctx context.Context) error {
	const window = 16 << 20 // as real agents have it
	dial := func() (*grpc.ClientConn, error) {
		return grpc.NewClient(a.coordinator, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithInitialWindowSize(window), grpc.WithInitialConnWindowSize(window),
			grpc.WithReadBufferSize(1<<10), grpc.WithWriteBufferSize(8<<10)) // twenty thousand of them
	}
	conn, err := dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	bulk, err := dial()
	if err != nil {
		return err
	}
	defer bulk.Close()
	group, ctx := errgroup.WithContext(ctx)
	service := spatev1.NewControlServiceClient(conn)
	if a.control, err = service.Connect(ctx); err != nil {
		return err
	}
	if err := a.hello(); err != nil {
		return err
	}
	push, err := spatev1.NewMetricsServiceClient(bulk).Push(ctx)
	if err != nil {
		return err
	}
	starts := make(chan *spatev1.Arm, 1)
	a.sent = make([]clock.Instant, a.windows)
	group.Go(func() error { return a.listen(starts) })
	group.Go(func() error { return a.beat(ctx) })
	group.Go(func() error { return a.count(push) })
	group.Go(func() error { return a.deliver(ctx, push, starts) })
	return group.Wait()
}

func (a *agent) say(m *spatev1.ConnectRequest) error {
	a.sending.Lock()
	defer a.sending.Unlock()
	return a.control.Send(m)
}

// hello introduces the agent.
func (a *agent) hello() error {
	if err := a.say(a.introduction()); err != nil {
		return err
	}
	m, err := a.control.Recv()
	if err == nil && m.GetWelcome() == nil {
		return errors.New("it did not answer Hello with Welcome")
	}
	return err
}

// introduction returns the first message of the agent.
func (a *agent) introduction() *spatev1.ConnectRequest {
	return &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Protocol: 2, Definitions: measure.Definitions, Agent: a.info, Incarnation: a.incarnation,
	}}}
}

// listen acts on the coordinator's messages.
func (a *agent) listen(starts chan<- *spatev1.Arm) error {
	for {
		m, err := a.control.Recv()
		if err != nil {
			return ended(err)
		}
		switch m := m.GetMessage().(type) {
		case *spatev1.ConnectResponse_Assign:
			if err := a.say(applied(m.Assign.GetRef())); err != nil {
				return err
			}
		case *spatev1.ConnectResponse_Arm:
			a.armed(m.Arm)
			starts <- m.Arm
		case *spatev1.ConnectResponse_Renewed:
			a.renewed(m.Renewed)
		case *spatev1.ConnectResponse_Stop:
			return errors.New("stopped: " + m.Stop.GetReason())
		}
	}
}

// renewed records the round trip of the last heartbeat.
func (a *agent) renewed(m *spatev1.Renewed) {
	now := clock.Now()
	a.sending.Lock()
	defer a.sending.Unlock()
	if m.GetNumber() == a.beats {
		a.answers.answeredBeat(now.Sub(a.beaten), m.GetSentClockNs() != 0)
	}
}

// applied answers an assignment.
func applied(ref *spatev1.AssignmentRef) *spatev1.ConnectRequest {
	return &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: &spatev1.Applied{
		Ref: ref, ClockUncertaintyNs: 1_100_000,
		Preparation: &spatev1.Preparation{Lengths: "words", ExactOutput: true, Server: "bench"},
	}}}
}

// beat sends one heartbeat per second of the agents, but at least every two seconds: after 3.5 s an agent is lost.
func (a *agent) beat(ctx context.Context) error {
	for clock.Sleep(ctx, min(a.seconds(1), 2*time.Second)) {
		if err := a.say(a.heartbeat()); err != nil {
			return ended(err)
		}
	}
	return nil
}

// heartbeat returns the next heartbeat, which is about to be sent.
func (a *agent) heartbeat() *spatev1.ConnectRequest {
	a.sending.Lock()
	defer a.sending.Unlock()
	a.beats, a.beaten = a.beats+1, clock.Now()
	return &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{
		InFlight: 1000, CpuCores: 0.7, ClockOffsetNs: 1234, ClockUncertaintyNs: 1_100_000, Number: a.beats,
	}}}
}

// deliver sends a snapshot after each window, and the totals after the last one. Both processes are on this machine, so
// they share a clock.
func (a *agent) deliver(ctx context.Context, push spatev1.MetricsService_PushClient, starts <-chan *spatev1.Arm) error {
	var arm *spatev1.Arm
	select {
	case arm = <-starts:
	case <-ctx.Done():
		return nil
	}
	start := clock.Instant(arm.GetStartClockNs())
	for window := range a.windows {
		if !clock.SleepUntil(ctx, start.Add(a.seconds(window+1)+time.Duration(a.slow)*sealDelay)) {
			return nil
		}
		a.sent[window] = clock.Now()
		more := window < a.windows-1 && len(a.rows) == 0
		if err := push.Send(&spatev1.PushRequest{Snapshot: a.snapshot(arm.GetRef(), window), More: more}); err != nil {
			return ended(err)
		}
	}
	return nil
}

// snapshot returns what the agent measured in a window. If a second takes several, it is in the last window of them.
func (a *agent) snapshot(ref *spatev1.AssignmentRef, window int) *spatev1.Snapshot {
	number := (window+1)*a.slow - 1
	s := &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{
			RunId: ref.GetRunId(), Agent: a.info.GetName(), Incarnation: a.incarnation, Sequence: uint64(window) + 1,
		},
		StageIndex: ref.GetStageIndex(), Revision: ref.GetRevision(), Window: uint32(number), PeakInFlight: 1000,
		Series: []*spatev1.Series{a.measured(window)}, Records: a.rows,
		Shares: shares(a.measured(window).GetCounters(), number),
	}
	if window == a.windows-1 {
		s.Totals = a.totals()
	}
	return s
}

// count counts acks and refusals. An answer is also the ack of the snapshots before it that had none.
func (a *agent) count(push spatev1.MetricsService_PushClient) error {
	answered := uint64(0)
	for {
		m, err := push.Recv()
		if err != nil {
			return ended(err)
		}
		now, number := clock.Now(), m.GetKey().GetSequence()
		a.answers.acked.Add(number - answered - 1)
		answered = number
		a.answers.acknowledged(m, now.Sub(a.sent[number-1]))
	}
}

// ended treats the end of a stream as no error: a coordinator that stops reports that elsewhere.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
