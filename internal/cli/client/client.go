// Package client connects commands to a coordinator, and finds the run that a person names.
package client

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/cli/settings"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// AnswerTimeout is how long a coordinator may take to answer a call.
const AnswerTimeout = 10 * time.Second

// Flags say where the coordinator is, for commands that need one.
type Flags struct {
	Coordinator string
	plaintext   bool
	tls         settings.TLS
}

// Add adds the flags to a command.
func (f *Flags) Add(flags *pflag.FlagSet) {
	flags.StringVar(&f.Coordinator, "coordinator", "", "the coordinator's `host:port`")
	flags.BoolVar(&f.plaintext, "insecure-plaintext", false,
		"connect to a coordinator on another machine without encryption: only on a network you trust")
	f.tls.AddFlags(flags)
}

// Connect checks the flags and makes the connection, which the caller closes. It sends nothing yet.
func (f *Flags) Connect() (*grpc.ClientConn, error) {
	if f.Coordinator == "" {
		return nil, command.BadInputf("--coordinator is missing: give the coordinator's host:port, or set SPATE_COORDINATOR")
	}
	if err := f.tls.Check(slog.Default()); err != nil {
		return nil, command.BadInput(err)
	}
	if !f.tls.Given() && !f.plaintext && !settings.Loopback(f.Coordinator) {
		return nil, command.BadInputf(
			"the connection to %s would be unencrypted, and the coordinator's identity unchecked: give --tls-ca, --tls-cert and --tls-key, or "+
				"--insecure-plaintext if you trust the network",
			f.Coordinator,
		)
	}
	return Dial(f.Coordinator, &f.tls)
}

// mostRuns is how many runs are searched for a name.
const mostRuns = 1000

// ListRuns lists the newest runs.
func (f *Flags) ListRuns(
	ctx context.Context, client spatev1.RunServiceClient, limit uint32,
) ([]*spatev1.RunSummary, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerTimeout)
	defer cancel()
	list, err := client.ListRuns(ctx, &spatev1.ListRunsRequest{Limit: limit})
	if err != nil {
		return nil, Unreachable(f.Coordinator, err)
	}
	return list.GetRuns(), nil
}

// Find finds the run that a person names.
func (f *Flags) Find(
	ctx context.Context, client spatev1.RunServiceClient, name string,
) (*spatev1.RunSummary, error) {
	runs, err := f.ListRuns(ctx, client, mostRuns)
	if err != nil {
		return nil, err
	}
	run, err := named(runs, name)
	return run, command.BadInput(err)
}
