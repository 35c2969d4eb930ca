package coordinator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Limits bound what peers can ask of a coordinator, so that one that runs wild does not stop the others. Legal agents
// and clients stay far below them. Zero values take the defaults.
type Limits struct {
	// Connections is how many are served at a time: an agent has two. Default 8,192. As many again are told why they
	// are not; more are closed.
	Connections int
	// Streams is how many streams there may be at a time: an agent has two, who follows a run one. Default 16,384.
	Streams int
	// ControlRate is how many messages a second an agent's control stream may bring on average, ControlBurst how many
	// at once: it has a heartbeat a second, and an answer for each assignment. Defaults 20 and 200.
	ControlRate, ControlBurst int
	// PushRate and PushBurst are the same for a stream of snapshots: one a second, and after a lost connection those of
	// the time without one. Defaults 200 and 20,000.
	PushRate, PushBurst int
}

// withDefaults fills in what is not set.
func (l Limits) withDefaults() Limits {
	l.Connections, l.Streams = cmp.Or(l.Connections, 8192), cmp.Or(l.Streams, 16384)
	l.ControlRate, l.ControlBurst = cmp.Or(l.ControlRate, 20), cmp.Or(l.ControlBurst, 200)
	l.PushRate, l.PushBurst = cmp.Or(l.PushRate, 200), cmp.Or(l.PushBurst, 20_000)
	return l
}

// limits counts what there is and refuses what is too much.
type limits struct {
	Limits
	log                  *slog.Logger
	connections, streams atomic.Int64
	refused              atomic.Uint64
}

func newLimits(l Limits, log *slog.Logger) *limits {
	return &limits{Limits: l.withDefaults(), log: log}
}

// options are those of a server with the limits.
func (l *limits) options(creds credentials.TransportCredentials) []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.Creds(door{creds, l}),
		grpc.ChainUnaryInterceptor(func(ctx context.Context, q any, _ *grpc.UnaryServerInfo,
			next grpc.UnaryHandler) (any, error) {
			if err := l.admit(ctx); err != nil {
				return nil, err
			}
			return next(ctx, q)
		}),
		grpc.ChainStreamInterceptor(l.stream),
	}
}

// refuse counts what is not served and says why.
func (l *limits) refuse(ctx context.Context, format string, args ...any) error {
	l.refused.Add(1)
	reason := fmt.Sprintf(format, args...)
	l.log.Warn("refused", "address", addressOf(ctx), "reason", reason)
	return limitError(reason)
}

// limitError is why something is not served.
type limitError string

// Error is the reason.
func (l limitError) Error() string { return string(l) }

// GRPCStatus is what the peer gets to know.
func (l limitError) GRPCStatus() *status.Status {
	return status.New(codes.ResourceExhausted, string(l))
}

// admit refuses calls over connections that are too many.
func (l *limits) admit(ctx context.Context) error {
	if p, ok := peer.FromContext(ctx); ok {
		if _, crowded := p.Addr.(crowdedAddr); crowded {
			return l.refuse(ctx, "the coordinator has %d connections, as many as it takes: try again later",
				l.Connections)
		}
	}
	return nil
}

// stream bounds the number of streams and the pace of their messages.
func (l *limits) stream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	if err := l.admit(stream.Context()); err != nil {
		return err
	}
	defer l.streams.Add(-1)
	if n := l.streams.Add(1); n > int64(l.Streams) {
		return l.refuse(stream.Context(), "the coordinator serves %d streams, as many as it takes: try again later",
			l.Streams)
	}
	switch info.FullMethod {
	case spatev1.ControlService_Connect_FullMethodName:
		stream = &pacedStream{stream, l, rate.NewLimiter(rate.Limit(l.ControlRate), l.ControlBurst)}
	case spatev1.MetricsService_Push_FullMethodName:
		stream = &pacedStream{stream, l, rate.NewLimiter(rate.Limit(l.PushRate), l.PushBurst)}
	}
	return next(srv, stream)
}

// pacedStream refuses to bring messages faster than a limit.
type pacedStream struct {
	grpc.ServerStream
	limits *limits
	pace   *rate.Limiter
}

// RecvMsg receives a message, or ends the stream.
func (s *pacedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if !s.pace.Allow() {
		return s.limits.refuse(s.Context(),
			"more than %d messages at once and %.0f a second on one stream: an agent of this version sends one a second",
			s.pace.Burst(), float64(s.pace.Limit()))
	}
	return nil
}

// door counts connections as they are made. Those beyond the limit are let in marked, so that their calls can be
// answered with the reason, up to twice the limit.
type door struct {
	credentials.TransportCredentials
	limits *limits
}

// ServerHandshake lets a connection in, or closes it.
func (d door) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	n := d.limits.connections.Add(1)
	leave := sync.OnceFunc(func() { d.limits.connections.Add(-1) })
	if n > 2*int64(d.limits.Connections) {
		leave()
		d.limits.refused.Add(1)
		return nil, nil, fmt.Errorf("coordinator: connection %d from %s: at most %d are served", n, raw.RemoteAddr(),
			d.limits.Connections)
	}
	conn, info, err := d.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		leave()
		return nil, nil, err
	}
	return &guest{Conn: conn, crowded: n > int64(d.limits.Connections), leave: leave}, info, nil
}

// Clone returns a copy that counts with the same limits.
func (d door) Clone() credentials.TransportCredentials {
	return door{d.TransportCredentials.Clone(), d.limits}
}

// guest is a connection that was let in.
type guest struct {
	net.Conn
	crowded bool
	leave   func()
}

// Close closes the connection.
func (g *guest) Close() error {
	g.leave()
	return g.Conn.Close()
}

// RemoteAddr is the peer's address, marked if the connection is one too many.
func (g *guest) RemoteAddr() net.Addr {
	if g.crowded {
		return crowdedAddr{g.Conn.RemoteAddr()}
	}
	return g.Conn.RemoteAddr()
}

// crowdedAddr is the address of a connection beyond the limit.
type crowdedAddr struct{ net.Addr }
