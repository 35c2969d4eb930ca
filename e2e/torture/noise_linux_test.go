package torture

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/e2e/torture/script"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Noise disturbs the messages of one agent where gRPC passes them on, like a network that breaks connections and an
// agent that resends what was not acked. Snapshots are sent twice, and after later ones. Acks are lost together with
// the connection. Messages of the coordinator arrive late, and twice.
type Noise struct {
	script script.Script

	mu    sync.Mutex
	dice  script.Dice
	acked map[string]*spatev1.SnapshotKey
	done  Trouble
}

// Trouble counts the disturbances.
type Trouble struct{ Twice, Held, Lost, Late int }

// NewNoise returns the noise of an agent of a script.
func NewNoise(s script.Script, agent int) *Noise {
	return &Noise{script: s, dice: script.NewDice(s.Seed, 1+uint64(agent)), acked: map[string]*spatev1.SnapshotKey{}}
}

// Acked returns the snapshots that the agent was told are durable, and the disturbances so far.
func (n *Noise) Acked() (keys []*spatev1.SnapshotKey, done Trouble) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, k := range n.acked {
		keys = append(keys, k)
	}
	return keys, n.done
}

// draw reports whether something happens, and counts it.
func (n *Noise) draw(p float64, count *int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.dice.Chance(p) {
		return false
	}
	*count++
	return true
}

// most is the largest delay of a message.
const most = 400 * time.Millisecond

// wait delays some messages.
func (n *Noise) wait(ctx context.Context) {
	if !n.draw(0.1, &n.done.Late) {
		return
	}
	n.mu.Lock()
	d := n.dice.Between(0, most, time.Millisecond)
	n.mu.Unlock()
	pause(ctx, d)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Option returns the agent's dial option.
func (n *Noise) Option() grpc.DialOption {
	return grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn,
		method string, next grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := next(ctx, desc, conn, method, opts...)
		switch {
		case err != nil:
			return nil, err
		case method == spatev1.MetricsService_Push_FullMethodName:
			return &noisyPush{ClientStream: s, noise: n}, nil
		case method == spatev1.ControlService_Connect_FullMethodName:
			return &noisyControl{ClientStream: s, noise: n}, nil
		}
		return s, nil
	})
}

// noisyPush is a stream of snapshots.
type noisyPush struct {
	grpc.ClientStream
	noise *Noise

	mu   sync.Mutex
	held []any // to be sent after later ones, or after most
}

// SendMsg sends a snapshot now, twice, or after the next one.
func (s *noisyPush) SendMsg(m any) error {
	s.noise.wait(s.Context())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.noise.draw(s.noise.script.Hold, &s.noise.done.Held) {
		s.hold(m)
		return nil
	}
	if err := s.ClientStream.SendMsg(m); err != nil {
		return err
	}
	if s.noise.draw(s.noise.script.Dup, &s.noise.done.Twice) {
		if err := s.ClientStream.SendMsg(m); err != nil {
			return err
		}
	}
	return s.release()
}

// hold keeps a snapshot back until the next one has been sent, or for a while. s is locked.
func (s *noisyPush) hold(m any) {
	s.held = append(s.held, m)
	time.AfterFunc(most, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = s.release() // the stream's end is seen elsewhere
	})
}

// release sends the snapshots that were held back, the last one first. s is locked.
func (s *noisyPush) release() error {
	for n := len(s.held); n > 0; n = len(s.held) {
		m := s.held[n-1]
		s.held = s.held[:n-1]
		if err := s.ClientStream.SendMsg(m); err != nil {
			return err
		}
	}
	return nil
}

// RecvMsg receives an ack, or loses it together with the connection.
func (s *noisyPush) RecvMsg(m any) error {
	if err := s.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	s.noise.wait(s.Context())
	if answer, ok := m.(*spatev1.PushResponse); ok && answer.GetRefused() == "" {
		s.noise.note(answer.GetKey())
	}
	if s.noise.draw(s.noise.script.Lose, &s.noise.done.Lost) {
		return status.Error(codes.Unavailable, "the connection broke before the ack arrived")
	}
	return nil
}

// note records the key of a snapshot that was acked.
func (n *Noise) note(k *spatev1.SnapshotKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.acked[k.String()] = proto.CloneOf(k)
}

// noisyControl is a control stream.
type noisyControl struct {
	grpc.ClientStream
	noise *Noise
	again *spatev1.ConnectResponse // to be received again; only one goroutine receives
}

// RecvMsg receives a message of the coordinator, sometimes late, and sometimes the previous one again.
func (c *noisyControl) RecvMsg(m any) error {
	if into, ok := m.(*spatev1.ConnectResponse); ok && c.again != nil {
		proto.Merge(into, c.again)
		c.again = nil
		return nil
	}
	if err := c.ClientStream.RecvMsg(m); err != nil {
		return err
	}
	c.noise.wait(c.Context())
	if said, ok := m.(*spatev1.ConnectResponse); ok && said.GetWelcome() == nil &&
		c.noise.draw(c.noise.script.Dup, &c.noise.done.Twice) {
		c.again = proto.CloneOf(said)
	}
	return nil
}
