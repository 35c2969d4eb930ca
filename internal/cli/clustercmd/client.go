package clustercmd

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/cli/command"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// answerTimeout is how long a coordinator may take to answer a call.
const answerTimeout = 10 * time.Second

// Ask makes a call to the coordinator at an address, which has 10 s to answer. Its error says what to do, unless it has
// one of the codes in plain: that one is returned as it is.
func Ask[Question, Answer any](
	ctx context.Context, address string,
	call func(context.Context, Question, ...grpc.CallOption) (Answer, error), q Question, plain ...codes.Code,
) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	answer, err := call(ctx, q)
	if err != nil && !slices.Contains(plain, status.Code(err)) {
		err = Unreachable(address, err)
	}
	return answer, err
}

// Flags say where the coordinator is, for commands that need one.
type Flags struct {
	Coordinator string `flag:"coordinator" help:"the coordinator's <host:port>"`
	Plaintext   bool   `flag:"insecure-plaintext" help:"connect to a coordinator on another machine without encryption: only on a network you trust"`
	TLS         command.TLS
}

// Check returns an error if the flags do not say how to connect.
func (f *Flags) Check() error {
	if f.Coordinator == "" {
		return command.BadInputf("--coordinator is missing: give the coordinator's host:port, or set SPATE_COORDINATOR")
	}
	if err := command.CheckAddress(f.Coordinator); err != nil {
		return command.BadInputf("--coordinator %w", err)
	}
	return command.BadInput(errors.Join(f.TLS.Check(slog.Default()), f.TLS.CheckPlain(f.Coordinator, f.Plaintext)))
}

// Connect checks the flags and makes the connection, which the caller closes. It sends nothing yet.
func (f *Flags) Connect() (*grpc.ClientConn, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	return Dial(f.Coordinator, &f.TLS)
}

// mostRuns is how many runs are searched for a name.
const mostRuns = 1000

// ListRuns lists the newest runs.
func (f *Flags) ListRuns(
	ctx context.Context, client spatev1.RunServiceClient, limit uint32,
) ([]*spatev1.RunSummary, error) {
	list, err := Ask(ctx, f.Coordinator, client.ListRuns, &spatev1.ListRunsRequest{Limit: limit})
	return list.GetRuns(), err
}

// Find finds the run that a person names.
func (f *Flags) Find(ctx context.Context, client spatev1.RunServiceClient, name string) (*spatev1.RunSummary, error) {
	runs, err := f.ListRuns(ctx, client, mostRuns)
	if err != nil {
		return nil, err
	}
	run, err := named(runs, name)
	return run, command.BadInput(err)
}
