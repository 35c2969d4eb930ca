package access

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/kernel"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Admission applies the limits and checks the certificates of a server's peers. Its methods may be called concurrently.
type Admission struct {
	// Limited counts connections, streams and messages beyond the limits.
	Limited atomic.Uint64
	// ConnectionsRefused counts connections without a certificate of the cluster.
	ConnectionsRefused atomic.Uint64
	// CallsRefused counts calls that the peer's certificate does not allow.
	CallsRefused atomic.Uint64

	limits               Limits
	log                  *slog.Logger
	connections, streams atomic.Int64
	strangers            atomic.Int64 // connections without a certificate
}

// NewAdmission returns the admission of one server. Limits that are not set take their defaults.
func NewAdmission(limits Limits, log *slog.Logger) *Admission {
	return &Admission{limits: limits.withDefaults(), log: log}
}

// MostAgents returns how many agents there is room for. An agent has two connections.
func (a *Admission) MostAgents() int { return a.limits.Connections / 2 }

// allowed are the roles that may call each service.
var allowed = map[string][]certs.Role{
	spatev1.ControlService_ServiceDesc.ServiceName: {certs.Agent},
	spatev1.MetricsService_ServiceDesc.ServiceName: {certs.Agent},
	spatev1.RunService_ServiceDesc.ServiceName:     {certs.Client},

	spatev1.EnrolmentService_ServiceDesc.ServiceName: {certs.Agent, certs.Client, certs.Stranger},
}

// Options returns the server options that apply the limits. With certificate files, connections are encrypted, and a
// peer may call what the role in its certificate allows; without them, any peer may call anything. With strangers,
// peers may connect without a certificate, to join. Options fails if the files cannot be read.
func (a *Admission) Options(files certs.Files, strangers bool) ([]grpc.ServerOption, error) {
	creds, authorise := insecure.NewCredentials(), []grpc.ServerOption(nil)
	if files.Given() {
		config, err := files.Server(strangers)
		if err != nil {
			return nil, err
		}
		creds = credentials.NewTLS(config)
		authorise = certs.Authorise(allowed, files.Revocations(), func(who certs.Identity, method string) {
			a.CallsRefused.Add(1)
			tell(a.log, "what", "call", "who", who.String(), "method", method)
		})
	}
	return append([]grpc.ServerOption{grpc.Creds(limitedCreds{creds, a}), grpc.ChainStreamInterceptor(a.stream)},
		authorise...), nil
}

// Limits bound what peers can ask of a coordinator, so that a faulty peer does not stop the others. Normal agents and
// clients stay far below the limits. Zero values take the defaults.
type Limits struct {
	// Connections is how many connections are served at a time. An agent has two. Default: what the memory and the
	// limit of open files of this process allow. Further ones are closed.
	Connections int
	// Streams is how many streams may be open at a time. An agent has two, a client that follows a run has one.
	// Default: two for each connection.
	Streams int
	// ControlRate is how many messages a second an agent's control stream may carry on average, ControlBurst how many
	// at once. An agent sends a heartbeat a second and an answer to each assignment. Defaults 20 and 200.
	ControlRate, ControlBurst int
	// PushRate and PushBurst are the same for a stream of snapshots. An agent sends one a second and, after it was
	// disconnected, all that it kept meanwhile. Defaults 200 and 20,000.
	PushRate, PushBurst int

	reason string // why there may be no more connections, for a sentence
}

// withDefaults fills in what is not set.
func (l Limits) withDefaults() Limits {
	if l.reason = "it accepts: try again later"; l.Connections == 0 {
		l.Connections, l.reason = machineRoom().connections()
	}
	l.Streams = cmp.Or(l.Streams, 2*l.Connections)
	l.ControlRate, l.ControlBurst = cmp.Or(l.ControlRate, 20), cmp.Or(l.ControlBurst, 200)
	l.PushRate, l.PushBurst = cmp.Or(l.PushRate, 200), cmp.Or(l.PushBurst, 20_000)
	return l
}

// refuse counts and logs a refusal and returns it as an error.
func (a *Admission) refuse(ctx context.Context, format string, args ...any) error {
	a.Limited.Add(1)
	reason := fmt.Sprintf(format, args...)
	tell(a.log, "what", "stream", "address", AddressOf(ctx), "reason", reason)
	return LimitError(reason)
}

// refusals limits the lines about those who are refused: strangers cause them, too. All are counted.
var refusals = rate.NewLimiter(10, 1000)

// tell logs a refusal.
func tell(log *slog.Logger, args ...any) {
	if refusals.Allow() {
		log.Warn("refused", args...)
	}
}

// AddressOf returns the address of a call's peer, empty if it is not known.
func AddressOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}

// LimitError is the reason of a refusal.
type LimitError string

// Error returns the reason.
func (l LimitError) Error() string { return string(l) }

// GRPCStatus returns the status that the peer receives.
func (l LimitError) GRPCStatus() *status.Status {
	return status.New(codes.ResourceExhausted, string(l))
}

// stream limits the number of streams and the rate of their messages.
func (a *Admission) stream(
	srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler,
) error {
	defer a.streams.Add(-1)
	if n := a.streams.Add(1); n > int64(a.limits.Streams) {
		return a.refuse(stream.Context(), "the coordinator serves %d streams, the most it accepts: try again later",
			a.limits.Streams)
	}
	switch info.FullMethod {
	case spatev1.ControlService_Connect_FullMethodName:
		stream = &pacedStream{stream, a, rate.NewLimiter(rate.Limit(a.limits.ControlRate), a.limits.ControlBurst)}
	case spatev1.MetricsService_Push_FullMethodName:
		stream = &pacedStream{stream, a, rate.NewLimiter(rate.Limit(a.limits.PushRate), a.limits.PushBurst)}
	}
	return next(srv, stream)
}

// pacedStream ends with an error when messages arrive faster than a limit.
type pacedStream struct {
	grpc.ServerStream
	admission *Admission
	pace      *rate.Limiter
}

// RecvMsg receives a message. It returns an error, which ends the stream, if messages arrive too fast.
func (s *pacedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err
	}
	if !s.pace.Allow() {
		return s.admission.refuse(s.Context(),
			"more than %d messages at once and %.0f a second on one stream: programs of this version send "+
				"fewer",
			s.pace.Burst(), float64(s.pace.Limit()))
	}
	return nil
}

// limitedCreds counts connections, and closes those beyond the limit.
type limitedCreds struct {
	credentials.TransportCredentials
	admission *Admission
}

// ServerHandshake accepts a connection, or returns an error, and the connection is closed.
func (d limitedCreds) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	a, leave := d.admission, sync.OnceFunc(func() { d.admission.connections.Add(-1) })
	if a.connections.Add(1) > int64(a.limits.Connections) {
		leave()
		a.Limited.Add(1)
		err := fmt.Errorf("%d connections (an agent takes two) are the most %s", a.limits.Connections, a.limits.reason)
		tell(a.log, "what", "connection", "address", raw.RemoteAddr(), "reason", err)
		return nil, nil, err
	}
	conn, info, err := d.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		leave()
		a.ConnectionsRefused.Add(1)
		tell(a.log, "what", "connection", "address", raw.RemoteAddr(), "reason", err)
		return nil, nil, err
	}
	c := &countedConn{Conn: conn, leave: leave, Reader: conn}
	if tls, is := info.(credentials.TLSInfo); is && len(tls.State.PeerCertificates) == 0 {
		err = a.limitStranger(c)
	}
	return c, info, err
}

// What peers without a certificate may take: connections at a time, and for each of them its time and what is read of
// it, in bytes. To join takes a second and 2 KiB.
const (
	mostStrangers = 64
	strangerTime  = 20 * time.Second
	strangerBytes = 64 << 10
)

// limitStranger limits the connection of a peer without a certificate, or returns an error.
func (a *Admission) limitStranger(c *countedConn) error {
	end := time.AfterFunc(strangerTime, func() { _ = c.Conn.Close() })
	leave := c.leave
	c.leave = sync.OnceFunc(func() { end.Stop(); a.strangers.Add(-1); leave() })
	c.Reader = io.LimitReader(c.Conn, strangerBytes)
	if a.strangers.Add(1) <= mostStrangers {
		return nil
	}
	c.leave()
	a.Limited.Add(1)
	return fmt.Errorf("%d programs join at this moment, the most it accepts: try again later", mostStrangers)
}

// Clone returns a copy that counts with the same limits.
func (d limitedCreds) Clone() credentials.TransportCredentials {
	return limitedCreds{d.TransportCredentials.Clone(), d.admission}
}

// countedConn is an accepted connection.
type countedConn struct {
	net.Conn
	io.Reader
	leave func()
}

// Read reads what the peer may send.
func (g *countedConn) Read(b []byte) (int, error) { return g.Reader.Read(b) }

// Close closes the connection and stops counting it.
func (g *countedConn) Close() error {
	g.leave()
	return g.Conn.Close()
}

// room is what this machine has for connections. 0: not known, or no limit.
type room struct {
	files  int    // open files of this process
	memory uint64 // bytes of this process
}

const (
	// connectionMemory is what a connection may take in bytes: half of an agent, see docs/scale.md.
	connectionMemory = 160 << 10
	// spareFiles is how many files the process opens besides connections.
	spareFiles = 512
	// unlimited is the number of connections if no limit is known.
	unlimited = 1 << 16
	// leastConnections are served in any case.
	leastConnections = 64
)

// connections returns how many connections there is room for, and what they are limited by, for a sentence. Half of the
// memory is for connections.
func (r room) connections() (most int, by string) {
	most, by = unlimited, "that this system allows"
	if r.memory > 0 {
		most = int(min(r.memory/2/connectionMemory, math.MaxInt32))
		by = fmt.Sprintf("that %d MiB of memory allow: give it more (GOMEMLIMIT if set)", r.memory>>20)
	}
	if files := r.files - spareFiles; r.files > 0 && files < most {
		most = files
		by = fmt.Sprintf("that %d open files allow: raise the limit (ulimit -n, LimitNOFILE= in a systemd unit)", r.files)
	}
	return max(most, leastConnections), by
}

// machineRoom reads the room of this machine: its limit of open files, and its memory.
func machineRoom() room { return room{files: openFiles(), memory: kernel.Memory()} }

// Enrolment lets programs join a coordinator that has its own authority: it issues certificates to those that were
// invited, and renews them. Its methods may be called concurrently.
type Enrolment struct {
	spatev1.UnimplementedEnrolmentServiceServer
	// Authority signs certificates, which are valid for Validity.
	Authority *certs.Authority
	Validity  time.Duration
	// Gossip is where agents reach gossip, and GossipKeys returns its keys as text. Empty and nil: agents cannot reach
	// it.
	Gossip     string
	GossipKeys func() (string, error)
	// Log receives who joined, and who was refused.
	Log *slog.Logger
}

// Enrol issues or renews a certificate.
func (e *Enrolment) Enrol(ctx context.Context, q *spatev1.EnrolRequest) (*spatev1.EnrolResponse, error) {
	who, _ := certs.PeerOf(ctx)
	who, cert, err := e.Authority.Enrol(who, q.GetToken(), q.GetName(), q.GetSigningRequest(), time.Now(), e.Validity)
	a := &spatev1.EnrolResponse{Certificate: cert, Authority: e.Authority.Certificate()}
	if err == nil && who.Role == certs.Agent && e.Gossip != "" {
		a.Gossip = e.Gossip
		a.GossipKeys, err = e.GossipKeys()
	}
	if err != nil {
		tell(e.Log, "what", "certificate", "who", who.String(), "address", AddressOf(ctx), "reason", err)
		return nil, err
	}
	e.Log.Info("certificate issued", "who", who.String(), "address", AddressOf(ctx))
	return a, nil
}
