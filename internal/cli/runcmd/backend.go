package runcmd

import (
	"context"
	"fmt"
	"io"
	"os"

	"google.golang.org/grpc"

	"github.com/spate-load/spate/internal/cli/clustercmd"
	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// backend is what a run runs on: a remote coordinator, or one embedded in this process with its agents. Both are called
// through the same services, so that everything behind them is the same.
type backend struct {
	conn      *grpc.ClientConn
	address   string // empty: embedded
	pages     string // URL of its web server. Empty: there is none
	minAgents uint32
	close     func()
}

// sayPages says where a run's page is, if it has one.
func (b *backend) sayPages(w io.Writer, id string) {
	if b.pages != "" {
		fmt.Fprintf(w, "Watch the run in a browser: %s/runs/%s\n", b.pages, id)
	}
}

// backend connects to the coordinator that the flags name, or starts the embedded one.
func (f *runFlags) backend(ctx context.Context, logs io.Writer) (*backend, error) {
	if f.Where.Coordinator == "" {
		return f.Local.embed(ctx, logs, f.Results.Place.Out, nil)
	}
	conn, err := clustercmd.Dial(f.Where.Coordinator, &f.Where.TLS)
	if err != nil {
		return nil, err
	}
	return &backend{conn: conn, address: f.Where.Coordinator, minAgents: f.Where.MinAgents,
		close: func() { _ = conn.Close() }}, nil
}

// onThisMachine returns an error if an agent of the run may not reach this machine's loopback.
func (b *backend) onThisMachine(ctx context.Context) error {
	if b.address == "" {
		return nil
	}
	here, err := os.Hostname()
	if err != nil {
		return err
	}
	agents, err := clustercmd.Ask(ctx, b.address, spatev1.NewRunServiceClient(b.conn).ListAgents,
		&spatev1.ListAgentsRequest{})
	if err != nil {
		return err
	}
	for _, a := range agents.GetAgents() {
		if host := a.GetAgent().GetHost(); host != "" && host != here {
			return command.BadInputf(
				"the plan's built-in simulator listens on this machine's loopback, but agent %s runs on %s: start `spate simulate` where all agents reach it, and name its endpoints in the plan",
				a.GetAgent().GetName(),
				host,
			)
		}
	}
	return nil
}
