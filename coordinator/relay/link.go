package relay

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/clock/far"
	"github.com/spate-load/spate/coordinator/streams"
	"github.com/spate-load/spate/internal/reason"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	minPause    = 100 * time.Millisecond // between attempts to connect
	maxPause    = 500 * time.Millisecond
	dialTimeout = 5 * time.Second
	stable      = 5 * time.Second // how long a link lasts that resets the pause
)

// maxAnswer bounds a message from the coordinator, in bytes: stages of many agents may come together.
const maxAnswer = 256 << 20

// alive detects a dead connection. Control has clock probes for that as well.
var alive = keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 20 * time.Second, PermitWithoutStream: true}

// Bounds on what is sent to the coordinator at once, in bytes, and on what waits to be sent, in messages.
const (
	controlBytes = 256 << 10
	pushBytes    = 1 << 20
	waiting      = 256
)

// maxKept bounds the snapshots that a relay keeps until they are answered, in bytes. Beyond that, agents wait.
const maxKept = 256 << 20

// link is the relay's connection to its coordinator, for as long as it lasts.
type link struct {
	relay   *Relay
	address string // of the coordinator
	ctx     context.Context
	clock   *far.Clock
	leapt   chan time.Duration
	said    chan *spatev1.FromAgent
	pushed  *bundler
	room    *semaphore.Weighted // for snapshots that are not answered, in bytes

	controls table[*spatev1.ConnectResponse]
	pushes   table[*spatev1.PushResponse]
}

// stayLinked holds one link after the other until ctx ends.
func (r *Relay) stayLinked(ctx context.Context) {
	var pause time.Duration
	var logged string
	for {
		began := clock.Now()
		err := r.connect(ctx)
		if ctx.Err() != nil {
			return
		}
		if clock.Now().Sub(began) >= stable {
			pause, logged = 0, ""
		}
		if err.Error() != logged {
			logged = err.Error()
			r.log.Warn("not connected", "error", err)
		}
		pause = min(max(2*pause, minPause), maxPause)
		if !clock.Sleep(ctx, pause/2+rand.N(pause/2)) {
			return
		}
	}
}

// connect holds one link. It blocks until the link ends, and returns why.
func (r *Relay) connect(ctx context.Context) error {
	address, err := r.cfg.Coordinator(ctx)
	if err != nil {
		return fmt.Errorf("the coordinator's address: %w", err)
	}
	options := append([]grpc.DialOption{
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: dialTimeout}),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)), grpc.WithKeepaliveParams(alive),
	}, r.cfg.DialOptions...)
	control, err := grpc.NewClient(address, options...)
	if err != nil {
		return fmt.Errorf("coordinator %s: %w", address, err)
	}
	defer control.Close()
	bulk, err := grpc.NewClient(address, append(options, r.cfg.BulkOptions...)...)
	if err != nil {
		return fmt.Errorf("coordinator %s: %w", address, err)
	}
	defer bulk.Close()
	if err := r.hold(ctx, address, control, bulk); err != nil {
		return fmt.Errorf("coordinator %s: %s", address, reason.Of(err))
	}
	return nil
}

// hold is connect once there are connections.
func (r *Relay) hold(ctx context.Context, address string, control, bulk *grpc.ClientConn) error {
	group, ctx := errgroup.WithContext(ctx)
	l := &link{
		relay: r, address: address, ctx: ctx, leapt: make(chan time.Duration, 1),
		said: make(chan *spatev1.FromAgent, waiting), pushed: newBundler(r.originOf()),
		room: semaphore.NewWeighted(maxKept),
	}
	l.clock = far.New(l.leap)
	said, err := spatev1.NewRelayServiceClient(control).RelayControl(ctx, grpc.UseCompressor(streams.Zstd))
	if err != nil {
		return err
	}
	pushed, err := spatev1.NewRelayServiceClient(bulk).RelayPush(ctx, grpc.UseCompressor(streams.Zstd))
	if err != nil {
		return err
	}
	defer r.link.Store(nil)
	defer r.datasets.SetService(nil)
	group.Go(func() error { return l.sendControl(said) })
	group.Go(func() error { return l.receiveControl(said) })
	group.Go(func() error { return l.sendPushed(pushed) })
	group.Go(func() error { return l.receiveAnswers(pushed) })
	group.Go(func() error { return l.clock.Follow(ctx, spatev1.NewControlServiceClient(control)) })
	group.Go(func() error {
		select {
		case <-l.clock.Settled():
			r.datasets.SetService(spatev1.NewControlServiceClient(bulk))
			r.links.Add(1)
			r.link.Store(l)
			r.log.Info("connected", "coordinator", address)
		case <-ctx.Done():
		}
		return nil
	})
	group.Go(l.awaitLeap)
	return group.Wait()
}

// leap notes that this machine's clock stood still.
func (l *link) leap(by time.Duration) {
	select {
	case l.leapt <- by:
	default: // the link is ending for it already
	}
}

// awaitLeap ends the link when this machine's clock stood still: answers to clock probes were wrong meanwhile, and in
// new sessions agents probe again.
func (l *link) awaitLeap() error {
	select {
	case by := <-l.leapt:
		return fmt.Errorf("this machine's clock stood still for at least %v", by)
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
}

// sendControl sends what agents say until the link ends.
func (l *link) sendControl(stream spatev1.RelayService_RelayControlClient) error {
	m := &spatev1.RelayControlRequest{Relay: l.relay.cfg.Name}
	for {
		if err := stream.Send(m); err != nil {
			return reason.Unsent(l.ctx, err)
		}
		batch, err := streams.Gather(l.ctx, l.said, controlBytes)
		if err != nil {
			return err
		}
		m = &spatev1.RelayControlRequest{Messages: batch}
	}
}

// sendPushed sends snapshots and bundles until the link ends.
func (l *link) sendPushed(stream spatev1.RelayService_RelayPushClient) error {
	m, again := &spatev1.RelayPushRequest{Relay: l.relay.cfg.Name}, clock.Instant(0)
	for {
		if proto.Size(m) > 0 {
			if err := stream.Send(m); err != nil {
				return reason.Unsent(l.ctx, err)
			}
		}
		if err := l.awaitPushed(again); err != nil {
			return err
		}
		m, again = l.pushed.take(clock.Now(), pushBytes)
	}
}

// awaitPushed waits until there may be something to send: until something came, and a moment for what comes with it, or
// until an instant unless that is zero.
func (l *link) awaitPushed(again clock.Instant) error {
	var due <-chan time.Time
	if again != 0 {
		due = time.After(clock.Until(again))
	}
	select {
	case <-l.pushed.ready:
		if !clock.Sleep(l.ctx, streams.Linger) {
			return l.ctx.Err()
		}
	case <-due:
	case <-l.ctx.Done():
		return l.ctx.Err()
	}
	return nil
}

// receiveControl passes on what the coordinator says. It never waits for an agent.
func (l *link) receiveControl(stream spatev1.RelayService_RelayControlClient) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, one := range m.GetMessages() {
			if one.GetSay().GetAssign() != nil {
				l.clock.ProbeOften()
			}
			l.controls.deliver(one.GetStream(), one.GetSay(), one.GetEnded())
		}
	}
}

// receiveAnswers passes on the answers to snapshots. It never waits for an agent.
func (l *link) receiveAnswers(stream spatev1.RelayService_RelayPushClient) error {
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, one := range m.GetAnswers() {
			if one.GetAnswer() != nil {
				l.relay.snapshots.Add(1)
			}
			l.pushes.deliver(one.GetStream(), one.GetAnswer(), one.GetEnded())
			l.pushed.answered(one.GetStream(), clock.Now())
		}
		for _, one := range m.GetBundles() {
			l.answerBundle(one)
		}
	}
}

// answerBundle passes on the answer to a bundle.
func (l *link) answerBundle(a *spatev1.BundleAnswer) {
	for _, s := range l.pushed.answeredBundle(a, clock.Now()) {
		if a.GetEnded() == nil {
			l.relay.snapshots.Add(1)
		}
		l.pushes.deliver(s.GetStream(), &spatev1.PushResponse{Key: s.GetSnapshot().GetKey()}, a.GetEnded())
	}
}
