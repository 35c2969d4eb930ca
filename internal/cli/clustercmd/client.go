package clustercmd

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/internal/cli/command"
	"github.com/spate-load/spate/internal/files"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/reason"
	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/store"
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
		return command.BadInputf("--coordinator is missing: give its host:port, set SPATE_COORDINATOR, or use spate login once")
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

// Dial connects to a coordinator's services. It detects a silent coordinator, so that no command waits for one for
// ever.
func Dial(address string, tls *command.TLS) (*grpc.ClientConn, error) {
	tls.RenewSoon(address)
	creds, err := tls.Dial(certs.Client)
	if err != nil {
		return nil, command.BadInputf("--tls-cert: %w", err)
	}
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnecting, MinConnectTimeout: 5 * time.Second}))
	if err != nil {
		return nil, command.BadInputf("--coordinator %q: %w", address, err)
	}
	return conn, nil
}

// maxMessage is the largest answer that is read, in bytes: the list of 100,000 agents, or the start of their run.
// gRPC's default of 4 MiB is too little for 20,000.
const maxMessage = 64 << 20

// reconnecting is how soon a broken connection is retried: a person waits for it.
var reconnecting = backoff.Config{BaseDelay: 200 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2,
	MaxDelay: 2 * time.Second}

// Unreachable returns an error that says what to do about a coordinator that cannot be reached, that refused a call, or
// that failed in it. Nothing was started.
func Unreachable(address string, err error) error {
	switch status.Code(err) {
	case codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition, codes.NotFound,
		codes.ResourceExhausted:
		return command.BadInputf("the coordinator at %s refused: %s", address, status.Convert(err).Message())
	case codes.Internal:
		return command.BadInputf("the coordinator at %s failed: %s", address, status.Convert(err).Message())
	}
	return command.BadInputf("the coordinator at %s cannot be reached: %s", address, reason.Of(err))
}

// NeverConnected reports whether a call failed before it can have reached the coordinator, judging by gRPC's message.
func NeverConnected(message string) bool {
	return strings.Contains(message, "Error while dialing: ") || strings.Contains(message, "name resolver error") ||
		strings.Contains(message, "handshake failed") || strings.Contains(message, "server preface") // not gRPC
}

// latest names the run that was submitted last.
const latest = "latest"

// named finds the run that a person means: by its ID, by a unique prefix of it, or as the latest.
func named(runs []*spatev1.RunSummary, name string) (*spatev1.RunSummary, error) {
	if len(runs) == 0 {
		return nil, errors.New("the coordinator has no runs")
	}
	if name == latest {
		return slices.MaxFunc(runs, func(a, b *spatev1.RunSummary) int {
			return a.GetSubmitTime().AsTime().Compare(b.GetSubmitTime().AsTime())
		}), nil
	}
	var found []*spatev1.RunSummary
	for _, r := range runs {
		if r.GetRunId() == name {
			return r, nil
		}
		if name != "" && strings.HasPrefix(r.GetRunId(), name) {
			found = append(found, r)
		}
	}
	switch len(found) {
	case 0:
		return nil, fmt.Errorf("there is no run %q; the newest are %s", name, words.Shorten(ids(runs), 3))
	case 1:
		return found[0], nil
	}
	return nil, fmt.Errorf("%d runs start with %q: %s; give more of the id", len(found), name,
		words.Shorten(ids(found), 3))
}

func ids(runs []*spatev1.RunSummary) []string {
	return lists.Each(runs, (*spatev1.RunSummary).GetRunId)
}

// GoesOn reports whether a run waits or is in progress.
func GoesOn(r *spatev1.RunSummary) bool {
	return r.GetState() == spatev1.RunState_RUN_STATE_WAITING || r.GetState() == spatev1.RunState_RUN_STATE_RUNNING
}

// outputFlag is the form in which a list is printed: "table" for people, "json" for programs, in the form of REST.
type outputFlag struct {
	Output string `flag:"output" default:"table" oneof:"table, json" help:"<form> of the list: table, or json as REST has it"`
}

// writeJSON prints a message as REST has it, indented: what has its default value is written, what is not known is left
// out.
func writeJSON(w io.Writer, m proto.Message) error {
	text, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	var out bytes.Buffer
	if err := errors.Join(err, json.Indent(&out, text, "", "  ")); err != nil {
		return fmt.Errorf("list: %w", err)
	}
	_, err = fmt.Fprintln(w, out.String())
	return err
}

// FetchLedger copies a run's ledger from the coordinator to path, as a whole or not at all. A ledger that already
// exists is the coordinator's own: an embedded coordinator keeps its ledger in the run directory from the start.
func FetchLedger(ctx context.Context, client spatev1.RunServiceClient, id, path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	stream, err := client.FetchLedger(ctx, &spatev1.FetchLedgerRequest{RunId: id})
	if err != nil {
		return err
	}
	return files.ReplaceBy(path, func(w io.Writer) error { return store.ReceivePieces(w, stream.Recv) })
}
