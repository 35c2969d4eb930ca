package clustertest

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spate-load/spate/coordinator/relay"
)

// Region is a cluster whose agents connect through a relay. Clients connect to the coordinator itself.
type Region struct {
	*Cluster
	Relay *relay.Relay
	Cut   func() // breaks the relay's connections to the coordinator
}

// Through starts a relay of a coordinator, and waits until it is connected.
func (h *Cluster) Through(name string) *Region {
	h.T.Helper()
	line := &line{to: h.Listener}
	r, err := relay.New(relay.Config{
		Name: name, DatasetDir: h.T.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Coordinator: func(context.Context) (string, error) { return "passthrough:///coordinator", nil },
		DialOptions: dialOptions(line.dial),
	})
	if err != nil {
		h.T.Fatal(err)
	}
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///relay", dialOptions(l.DialContext)...)
	if err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(func() {
		if err := errors.Join(conn.Close(), r.Close(), <-served); err != nil {
			h.T.Error(err)
		}
	})
	agents := *h
	agents.Conn = conn
	out := &Region{Cluster: &agents, Relay: r, Cut: line.cut}
	out.AwaitLinks(1)
	return out
}

// line dials a listener, and can break all of its connections at once.
type line struct {
	to    *bufconn.Listener
	mu    sync.Mutex
	conns []net.Conn
}

func (l *line) dial(ctx context.Context) (net.Conn, error) {
	c, err := l.to.DialContext(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.conns = append(l.conns, c)
	}
	return c, err
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.conns {
		_ = c.Close() // may be closed already
	}
	l.conns = nil
}

func dialOptions(dial func(context.Context) (net.Conn, error)) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64 << 20)),
	}
}

// AwaitLinks waits until the relay has connected to its coordinator that often.
func (r *Region) AwaitLinks(n uint64) {
	r.T.Helper()
	Eventually(r.T, "the relay is connected", func() bool { return r.Relay.Stats().Links == n })
}

// Resume connects an agent again, with the assignment that it has.
func (r *Region) Resume(a *Agent) (*Agent, error) {
	r.T.Helper()
	again, err := r.Dial(a.Name, a.Incarnation)
	if err == nil {
		again.Assigned, again.Sequence, again.First = a.Assigned, a.Sequence, a.First
	}
	return again, err
}
