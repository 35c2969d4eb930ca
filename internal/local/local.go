// Package local runs a coordinator and agents in this process. They speak gRPC over an in-memory listener: no port is
// opened.
package local

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spate-load/spate/agent"
	"github.com/spate-load/spate/coordinator"
)

// address is what agents and clients dial. The in-memory listener ignores it.
const address = "passthrough:///local"

// Cluster is a coordinator with its agents.
type Cluster struct {
	conn        *grpc.ClientConn
	coordinator *coordinator.Coordinator
	logger      *slog.Logger
	serving     sync.WaitGroup
	agents      sync.WaitGroup
	end         map[string]context.CancelFunc // ends the agent of that name
}

// Start serves a coordinator and runs agents for it until Close. It fills in how the agents reach their coordinator.
// The cluster owns the coordinator from here on: after an error it is closed.
func Start(c *coordinator.Coordinator, agents []agent.Config, logger *slog.Logger) (*Cluster, error) {
	l := &Cluster{coordinator: c, logger: logger, end: map[string]context.CancelFunc{}}
	listener := bufconn.Listen(1 << 20)
	l.serve(c.Serve, listener)
	dial := []grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return listener.DialContext(ctx)
		}),
	}
	var err error
	if l.conn, err = grpc.NewClient(address, dial...); err == nil {
		err = l.startAgents(agents, dial)
	}
	if err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// startAgents starts the agents. The agents before one that cannot be made run until the cluster is closed.
func (l *Cluster) startAgents(configs []agent.Config, dial []grpc.DialOption) error {
	for _, config := range configs {
		config.Coordinator = func(context.Context) (string, error) { return address, nil }
		config.DialOptions = dial
		a, err := agent.New(config)
		if err != nil {
			return err
		}
		ctx, end := context.WithCancel(context.Background())
		l.end[config.Name] = end
		l.agents.Go(func() {
			if err := a.Run(ctx); err != nil && ctx.Err() == nil {
				l.logger.Error("embedded agent failed", "agent", config.Name, "error", err)
			}
		})
	}
	return nil
}

// Serve also takes agents that connect to a listener, which the cluster closes.
func (l *Cluster) Serve(listener net.Listener) { l.serve(l.coordinator.ServeAlso, listener) }

func (l *Cluster) serve(by func(net.Listener) error, listener net.Listener) {
	l.serving.Go(func() {
		if err := by(listener); err != nil {
			l.logger.Error("embedded coordinator failed", "error", err)
		}
	})
}

// Conn returns a connection to the coordinator's services. It ends with the cluster.
func (l *Cluster) Conn() *grpc.ClientConn { return l.conn }

// EndAgent ends one agent. It does not wait for the agent's end.
func (l *Cluster) EndAgent(name string) { l.end[name]() }

// Close ends the agents and then the coordinator, and waits for them. A run in progress ends with them.
func (l *Cluster) Close() {
	if err := l.close(); err != nil {
		l.logger.Error("embedded coordinator did not close well", "error", err)
	}
}

func (l *Cluster) close() error {
	if l.conn != nil {
		_ = l.conn.Close()
	}
	for _, end := range l.end {
		end()
	}
	l.agents.Wait() // before the coordinator stops: they need it
	err := l.coordinator.Close()
	l.serving.Wait()
	return err
}
