package spatecmd

import (
	"context"
	"log/slog"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/spate-load/spate/internal/cli/settings"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// answerTimeout is how long a coordinator may take to answer a call.
const answerTimeout = 10 * time.Second

// clientFlags say where the coordinator is, for commands that need one.
type clientFlags struct {
	coordinator string
	plaintext   bool
	tls         settings.TLS
}

func (f *clientFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.coordinator, "coordinator", "", "the coordinator's `host:port`")
	flags.BoolVar(&f.plaintext, "insecure-plaintext", false,
		"talk to a coordinator on another machine without encryption: only on a network you trust")
	f.tls.AddFlags(flags)
}

// connect checks the flags and makes the connection, which the caller closes. It sends nothing yet.
func (f *clientFlags) connect() (*grpc.ClientConn, error) {
	if f.coordinator == "" {
		return nil, badInputf("--coordinator is missing: give the coordinator's host:port")
	}
	if err := f.tls.Check(slog.Default()); err != nil {
		return nil, badInput(err)
	}
	if !f.tls.Given() && !f.plaintext && !settings.Loopback(f.coordinator) {
		return nil, badInputf("the connection to %s would be plain, and nobody knows who answers there: give --tls-ca, --tls-cert and --tls-key, or "+
			"--insecure-plaintext if you trust the network", f.coordinator)
	}
	return dial(f.coordinator, &f.tls)
}

// mostRuns is how many runs are searched for a name.
const mostRuns = 1000

// listRuns lists the newest runs.
func (f *clientFlags) listRuns(
	ctx context.Context, client spatev1.RunServiceClient, limit uint32,
) ([]*spatev1.RunSummary, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	list, err := client.ListRuns(ctx, &spatev1.ListRunsRequest{Limit: limit})
	if err != nil {
		return nil, unreachable(f.coordinator, err)
	}
	return list.GetRuns(), nil
}

// find finds the run that a person names.
func (f *clientFlags) find(
	ctx context.Context, client spatev1.RunServiceClient, name string,
) (*spatev1.RunSummary, error) {
	runs, err := f.listRuns(ctx, client, mostRuns)
	if err != nil {
		return nil, err
	}
	run, err := named(runs, name)
	return run, badInput(err)
}
