package coordinator

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/admission"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/histogram"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait in the tests. No wait should take long.
const patience = 30 * time.Second

// plan has one target and two concurrencies: two stages.
const plan = `name: sweep
seed: 7
targets:
  - name: east
    endpoints: ["http://east.example:8000"]
    model: m
    api_key: env:KEY
workloads:
  - random: {isl: 10, osl: 5}
loads:
  - concurrency: [1, 2]
    requests: 4
`

const secretKey = "do-not-print-me"

// leisurely lets agents be silent, because agents in the tests send no heartbeats unless a test is about heartbeats.
var leisurely = lifecycle.Config{Silence: time.Hour}

// harness is a coordinator with a client, in one process.
type harness struct {
	t        testing.TB
	c        *Coordinator
	listener *bufconn.Listener
	conn     *grpc.ClientConn
	runs     spatev1.RunServiceClient
	dataDir  string
	gate     *gate // nil in benchmarks
}

func start(t testing.TB, change ...func(*Config)) *harness {
	t.Helper()
	cfg := Config{
		DataDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Version: "test",
		Run: leisurely,
	}
	for _, f := range change {
		f(&cfg)
	}
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, c, cfg.DataDir)
}

// serve lets a coordinator serve in this process until the test ends.
func serve(t testing.TB, c *Coordinator, dataDir string) *harness {
	t.Helper()
	var g *gate
	if _, ok := t.(*testing.T); ok {
		g = newGate(t, c)
	}
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- c.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallSendMsgSize(64<<20)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if g != nil {
			g.restart() // a failed test may have left it stopped
		}
		if err := errors.Join(conn.Close(), c.Close(), <-served); err != nil {
			t.Error(err)
		}
	})
	return &harness{
		t: t, c: c, listener: l, conn: conn, runs: spatev1.NewRunServiceClient(conn), dataDir: dataDir, gate: g,
	}
}

// submit submits a run of plan.
func (h *harness) submit(minAgents uint32) string {
	h.t.Helper()
	return h.submitPlan(minAgents, plan)
}

// submitPlan submits a run.
func (h *harness) submitPlan(minAgents uint32, plan string) string {
	h.t.Helper()
	a, err := h.runs.SubmitRun(h.t.Context(), &spatev1.SubmitRunRequest{
		PlanYaml: []byte(plan), PlanPath: "plan.yaml", MinAgents: minAgents,
		Secrets: map[string]string{"env:KEY": secretKey},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return a.GetRunId()
}

// follow reads a run's events to their end, without windows.
func (h *harness) follow(id string) []*spatev1.RunEvent {
	h.t.Helper()
	return h.read(&spatev1.FollowRunRequest{RunId: id})
}

// read reads the events that a request asks for to their end.
func (h *harness) read(q *spatev1.FollowRunRequest) []*spatev1.RunEvent {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	stream, err := h.runs.FollowRun(ctx, q)
	if err != nil {
		h.t.Fatal(err)
	}
	var events []*spatev1.RunEvent
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return events
		}
		if err != nil {
			h.t.Fatalf("after %d events: %v", len(events), err)
		}
		events = append(events, m.GetEvent())
	}
}

// end follows a run and returns its last event.
func (h *harness) end(id string) *spatev1.RunEnded {
	h.t.Helper()
	events := h.follow(id)
	return events[len(events)-1].GetRunEnded()
}

// agent is an agent played by hand.
type agent struct {
	h           *harness
	name        string
	incarnation uint64
	control     spatev1.ControlService_ConnectClient
	push        spatev1.MetricsService_PushClient
	hangUp      context.CancelFunc
	assigned    *spatev1.Assign
	sequence    uint64
	first       uint64 // sequence number of the stage's first snapshot
}

// dial connects an agent and sends its Hello.
func (h *harness) dial(name string, incarnation uint64) (*agent, error) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	h.t.Cleanup(cancel)
	a := &agent{h: h, name: name, incarnation: incarnation, hangUp: cancel}
	var err error
	if a.control, err = spatev1.NewControlServiceClient(h.conn).Connect(ctx); err != nil {
		h.t.Fatal(err)
	}
	a.say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Protocol: admission.Protocol, Definitions: measure.Definitions, Incarnation: incarnation,
		Agent: &spatev1.AgentInfo{Name: name, Region: "eu", Weight: 1},
	}}})
	m, err := a.control.Recv()
	if err != nil {
		return nil, err
	}
	if m.GetWelcome() == nil {
		h.t.Fatalf("%s hears %v, want a welcome", name, m)
	}
	a.push, err = spatev1.NewMetricsServiceClient(h.conn).Push(ctx)
	return a, err
}

// agent connects an agent and expects to be welcomed.
func (h *harness) agent(name string) *agent {
	h.t.Helper()
	a, err := h.dial(name, 1)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

func (a *agent) say(m *spatev1.ConnectRequest) {
	a.h.t.Helper()
	if err := a.control.Send(m); err != nil {
		a.h.t.Fatal(err)
	}
}

func (a *agent) hear() *spatev1.ConnectResponse {
	a.h.t.Helper()
	m, err := a.control.Recv()
	if err != nil {
		a.h.t.Fatalf("%s: %v", a.name, err)
	}
	return m
}

// apply waits for an assignment and answers that the agent is ready.
func (a *agent) apply() {
	a.h.t.Helper()
	m := a.hear()
	if a.assigned = m.GetAssign(); a.assigned == nil {
		a.h.t.Fatalf("%s hears %v, want an assignment", a.name, m)
	}
	a.first = a.sequence
	a.say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Applied{Applied: &spatev1.Applied{
		Ref: a.assigned.GetRef(), ClockUncertaintyNs: 1000,
	}}})
}

// armed waits for the start.
func (a *agent) armed() *spatev1.Arm {
	a.h.t.Helper()
	m := a.hear()
	if m.GetArm() == nil {
		a.h.t.Fatalf("%s hears %v, want a start", a.name, m)
	}
	return m.GetArm()
}

// stopped waits for a stop.
func (a *agent) stopped() *spatev1.Stop {
	a.h.t.Helper()
	m := a.hear()
	if m.GetStop() == nil {
		a.h.t.Fatalf("%s hears %v, want a stop", a.name, m)
	}
	return m.GetStop()
}

// snapshot returns the agent's next snapshot: one request completed in the window.
func (a *agent) snapshot(window uint32) *spatev1.Snapshot {
	a.sequence++
	h := histogram.New(histogram.LayoutOf(spatev1.Metric_METRIC_TTFT))
	h.Record(int64(20 * time.Millisecond))
	return &spatev1.Snapshot{
		Key: &spatev1.SnapshotKey{
			RunId: a.assigned.GetRef().GetRunId(), Agent: a.name, Incarnation: a.incarnation, Sequence: a.sequence,
		},
		StageIndex: a.assigned.GetRef().GetStageIndex(), Revision: 1, Window: window,
		Series: []*spatev1.Series{{
			Counters:      &spatev1.Counters{Started: 1, Completed: 1, OutputTokens: 5, TokensArrived: 5},
			Distributions: []*spatev1.Distribution{h.Proto(spatev1.Metric_METRIC_TTFT)},
		}},
		Shares: []*spatev1.WindowShare{{Window: window, OutputTokens: 5, MicroRequests: 1_000_000}},
	}
}

// last returns the agent's last snapshot of the stage: one request in the window, and the totals of all snapshots.
func (a *agent) last(window uint32) *spatev1.Snapshot {
	s := a.snapshot(window)
	n := a.sequence - a.first
	s.Totals = &spatev1.Totals{
		Snapshots: n,
		Counters:  &spatev1.Counters{Started: n, Completed: n, OutputTokens: 5 * n, TokensArrived: 5 * n},
		Values:    []*spatev1.MetricCount{{Metric: spatev1.Metric_METRIC_TTFT, Count: n}},
	}
	return s
}

// deliver pushes a snapshot and returns the answer.
func (a *agent) deliver(s *spatev1.Snapshot) *spatev1.PushResponse {
	a.h.t.Helper()
	if err := a.push.Send(&spatev1.PushRequest{Snapshot: s}); err != nil {
		a.h.t.Fatal(err)
	}
	m, err := a.push.Recv()
	if err != nil {
		a.h.t.Fatal(err)
	}
	return m
}

// acked delivers a snapshot that must be accepted.
func (a *agent) acked(s *spatev1.Snapshot) {
	a.h.t.Helper()
	if m := a.deliver(s); m.GetRefused() != "" {
		a.h.t.Fatalf("%s: snapshot %d refused: %s", a.name, s.GetKey().GetSequence(), m.GetRefused())
	}
}

// fetch reads a run's ledger through the service and opens it.
func (h *harness) fetch(id string) *ledger.Ledger {
	h.t.Helper()
	l, err := ledger.OpenReadOnly(h.download(id))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { l.Close() })
	return l
}
