// Package clustertest serves a coordinator in the process of a test, with clients and agents that the test plays by
// hand. Its own tests are those of a coordinator that need nothing but its services.
package clustertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Patience bounds every wait in the tests. No wait should take long.
const Patience = 30 * time.Second

// server is a coordinator that has not served yet.
type server interface {
	Serve(l net.Listener) error
	Close() error
}

// Cluster is a coordinator with a client, in one process.
type Cluster struct {
	T        testing.TB
	Listener *bufconn.Listener
	Conn     *grpc.ClientConn // of clients and agents
	Runs     spatev1.RunServiceClient
}

// Serve lets a coordinator serve in this process until the test ends.
func Serve(t testing.TB, c server) *Cluster {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- c.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///coordinator",
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(conn.Close(), c.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return &Cluster{T: t, Listener: l, Conn: conn, Runs: spatev1.NewRunServiceClient(conn)}
}

// Submit submits a run of plan.
func (h *Cluster) Submit(minAgents uint32) string {
	h.T.Helper()
	return h.SubmitPlan(minAgents, Plan)
}

// SubmitPlan submits a run.
func (h *Cluster) SubmitPlan(minAgents uint32, plan string) string {
	h.T.Helper()
	a, err := h.Runs.SubmitRun(h.T.Context(), &spatev1.SubmitRunRequest{
		PlanYaml: []byte(plan), PlanPath: "plan.yaml", MinAgents: minAgents,
		Secrets: map[string]string{"env:KEY": SecretKey},
	})
	if err != nil {
		h.T.Fatal(err)
	}
	return a.GetRunId()
}

// Follow reads a run's events to their end, without windows.
func (h *Cluster) Follow(id string) []*spatev1.RunEvent {
	h.T.Helper()
	return h.Read(&spatev1.FollowRunRequest{RunId: id})
}

// Read reads the events that a request asks for to their end.
func (h *Cluster) Read(q *spatev1.FollowRunRequest) []*spatev1.RunEvent {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.T.Context(), Patience)
	defer cancel()
	stream, err := h.Runs.FollowRun(ctx, q)
	if err != nil {
		h.T.Fatal(err)
	}
	var events []*spatev1.RunEvent
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			h.T.Fatalf("after %d events: %v", len(events), err)
		}
		events = append(events, m.GetEvent())
	}
}

// End follows a run and returns its last event.
func (h *Cluster) End(id string) *spatev1.RunEnded {
	h.T.Helper()
	events := h.Follow(id)
	return events[len(events)-1].GetRunEnded()
}

// Fetch reads a run's ledger through the service and opens it.
func (h *Cluster) Fetch(id string) *ledger.Ledger {
	h.T.Helper()
	l, err := ledger.OpenReadOnly(h.Download(id))
	if err != nil {
		h.T.Fatal(err)
	}
	h.T.Cleanup(func() { l.Close() })
	return l
}

// Download fetches a ledger and returns the path of the copy.
func (h *Cluster) Download(id string) string {
	h.T.Helper()
	stream, err := h.Runs.FetchLedger(h.T.Context(), &spatev1.FetchLedgerRequest{RunId: id})
	if err != nil {
		h.T.Fatal(err)
	}
	var file bytes.Buffer
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			h.T.Fatal(err)
		}
		if len(m.GetData()) > 256<<10 {
			h.T.Errorf("a piece of %d bytes", len(m.GetData()))
		}
		file.Write(m.GetData())
	}
	path := filepath.Join(h.T.TempDir(), "ledger.db")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		h.T.Fatal(err)
	}
	return path
}

// Result computes a run's result from its fetched ledger.
func (h *Cluster) Result(id string) *results.Result {
	h.T.Helper()
	r, err := results.Of(h.Fetch(id))
	if err != nil {
		h.T.Fatal(err)
	}
	return r
}

// FetchCode returns the status code with which a fetch fails.
func (h *Cluster) FetchCode(id string) codes.Code {
	h.T.Helper()
	stream, err := h.Runs.FetchLedger(h.T.Context(), &spatev1.FetchLedgerRequest{RunId: id})
	if err != nil {
		h.T.Fatal(err)
	}
	_, err = stream.Recv()
	return status.Code(err)
}

// Texts returns the texts of the notices among events.
func Texts(events []*spatev1.RunEvent) (out []string) {
	for _, e := range events {
		if n := e.GetNotice(); n != nil {
			out = append(out, n.GetText())
		}
	}
	return out
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// AgentsIn returns the names of the agents that were assigned a part of a run's stages, by its ledger.
func AgentsIn(t *testing.T, l *ledger.Ledger) (names []string) {
	t.Helper()
	records, err := l.Stages()
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		for _, a := range rec.GetAgents() {
			names = append(names, a.GetAgent().GetName())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// List lists the runs, also in short: "id state" each.
func List(t *testing.T, runs spatev1.RunServiceClient, limit uint32) (out []string, all []*spatev1.RunSummary) {
	t.Helper()
	m, err := runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{Limit: limit})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range m.GetRuns() {
		out = append(out, r.GetRunId()+" "+strings.TrimPrefix(r.GetState().String(), "RUN_STATE_"))
	}
	return out, m.GetRuns()
}

// Plan has one target and two concurrencies: two stages.
const Plan = start + "    api_key: env:KEY\n" + rest

// Keyless is Plan without its secret.
const Keyless = start + rest

const start = `name: sweep
seed: 7
targets:
  - name: east
    endpoints: ["http://east.example:8000"]
    model: m
`

const rest = `workloads:
  - random: {isl: 10, osl: 5}
loads:
  - concurrency: [1, 2]
    requests: 4
`

// SecretKey is the value of the key that plans with a secret name.
const SecretKey = "do-not-print-me"

// PlanOf returns a plan with one target, one workload and a load.
func PlanOf(load string) string {
	return "name: p\ntargets:\n  - name: east\n    endpoints: [\"http://east.example:8000\"]\n    model: m\n" +
		"workloads:\n  - random: {isl: 10, osl: 5}\nloads:\n  - " + load + "\n"
}

// PlanOn returns a plan that takes some agents and loads a server, in one stage.
func PlanOn(agents int, server string) string {
	text := strings.Replace(PlanOf(`{concurrency: [1], requests: 4}`), "east.example:8000", server, 1)
	return text + fmt.Sprintf("agents: {count: %d}\n", agents)
}
