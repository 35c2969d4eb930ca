package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/access"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/fleet"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// lockedBuffer collects a log from several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *lockedBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestBadHellosAreRefused(t *testing.T) {
	h := start(t)
	good := func() *spatev1.Hello {
		return &spatev1.Hello{Protocol: access.Protocol, Definitions: measure.Definitions, Incarnation: 1,
			Agent: &spatev1.AgentInfo{Name: "a"}}
	}
	for name, tc := range map[string]struct {
		spoil func(*spatev1.Hello)
		code  codes.Code
	}{
		"protocol":       {func(m *spatev1.Hello) { m.Protocol = 9 }, codes.FailedPrecondition},
		"definitions":    {func(m *spatev1.Hello) { m.Definitions = 0 }, codes.FailedPrecondition},
		"no name":        {func(m *spatev1.Hello) { m.Agent.Name = "" }, codes.InvalidArgument},
		"name as a path": {func(m *spatev1.Hello) { m.Agent.Name = "../a" }, codes.InvalidArgument},
		"long name":      {func(m *spatev1.Hello) { m.Agent.Name = strings.Repeat("a", 65) }, codes.InvalidArgument},
		"no process":     {func(m *spatev1.Hello) { m.Incarnation = 0 }, codes.InvalidArgument},
		"long region":    {func(m *spatev1.Hello) { m.Agent.Region = strings.Repeat("r", 65) }, codes.InvalidArgument},
		"NaN max_rate":   {func(m *spatev1.Hello) { m.Agent.MaxRate = math.NaN() }, codes.InvalidArgument},
		"negative rate":  {func(m *spatev1.Hello) { m.Agent.MaxRate = -1 }, codes.InvalidArgument},
		"endless frames": {func(m *spatev1.Hello) { m.Agent.Capacity = &spatev1.Capacity{FramesPerSecond: math.Inf(1)} }, codes.InvalidArgument},
		"absurd frames": {func(m *spatev1.Hello) { m.Agent.Capacity = &spatev1.Capacity{FramesPerSecond: 1e300} },
			codes.InvalidArgument},
		"NaN starts": {func(m *spatev1.Hello) { m.Agent.Capacity = &spatev1.Capacity{StartsPerSecond: math.NaN()} },
			codes.InvalidArgument},
		"no time": {func(m *spatev1.Hello) {
			m.Agent.Capacity = &spatev1.Capacity{MeasuredAt: &timestamppb.Timestamp{Nanos: -1}}
		}, codes.InvalidArgument},
	} {
		m := good()
		tc.spoil(m)
		hello := &spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: m}}
		if code := h.firstMessage(hello); code != tc.code {
			t.Errorf("%s: %v, want %v", name, code, tc.code)
		}
	}
	if code := h.firstMessage(&spatev1.ConnectRequest{}); code != codes.InvalidArgument {
		t.Errorf("something else first: %v", code)
	}
}

// A heartbeat with a number that lists of agents could not show ends the session.
func TestAHeartbeatWithoutNumbersEndsTheSession(t *testing.T) {
	for _, cores := range []float64{math.NaN(), math.Inf(1), -1} {
		h := start(t)
		a := h.Agent("a")
		a.Say(
			&spatev1.ConnectRequest{
				Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{Number: 1, CpuCores: cores}},
			},
		)
		if _, err := a.Control.Recv(); status.Code(err) != codes.InvalidArgument ||
			!strings.Contains(err.Error(), "cpu_cores") {
			t.Errorf("cpu_cores of %v: %v", cores, err)
		}
	}
}

// firstMessage connects with a message and returns how the stream ends.
func (h *harness) firstMessage(m *spatev1.ConnectRequest) codes.Code {
	h.T.Helper()
	ctx, cancel := context.WithTimeout(h.T.Context(), clustertest.Patience)
	defer cancel()
	stream, err := spatev1.NewControlServiceClient(h.Conn).Connect(ctx)
	if err != nil {
		h.T.Fatal(err)
	}
	if err := stream.Send(m); err != nil {
		h.T.Fatal(err)
	}
	_, err = stream.Recv()
	return status.Code(err)
}

func TestANameBelongsToOneProcess(t *testing.T) {
	h := start(t)
	first := h.Agent("a")
	if _, err := h.Dial("a", 2); status.Code(err) != codes.AlreadyExists {
		t.Fatalf("a second process with the name: %v", err)
	}
	if _, err := h.Dial("a", 1); err != nil {
		t.Fatalf("the same process, on a new connection: %v", err)
	}
	if _, err := first.Control.Recv(); status.Code(err) != codes.Aborted {
		t.Errorf("its old connection: %v", err)
	}
}

func TestANameIsFreeWhenItsProcessIsSilent(t *testing.T) {
	h := start(t, func(c *Config) { c.Run.Silence = time.Nanosecond })
	first := h.Agent("a")
	if _, err := h.Dial("a", 2); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Control.Recv(); status.Code(err) != codes.Aborted {
		t.Errorf("the silent process: %v", err)
	}
}

func TestASecondHelloEndsTheSession(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	a.Say(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{}}})
	if _, err := a.Control.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("error %v", err)
	}
}

func TestAgentsAreListedWithTheirHealth(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *Config) { c.HeartbeatInterval = time.Hour })
	h.Agent("b")
	a := h.Agent("a")
	h.Submit(3)
	h.checkHealth("a READY, b READY")
	h.Agent("c")
	a.Apply()
	h.Agent("d")
	h.checkHealth("a BUSY, b BUSY, c BUSY, d READY")
	h.c.mu.Lock()
	h.c.fleet.Session("d").Heard = clock.Now().Add(-3 * time.Hour)
	h.c.mu.Unlock()
	h.checkHealth("a BUSY, b BUSY, c BUSY, d SILENT")
}

func (h *harness) checkHealth(want string) {
	h.T.Helper()
	m, err := h.Runs.ListAgents(h.T.Context(), &spatev1.ListAgentsRequest{})
	if err != nil {
		h.T.Fatal(err)
	}
	var got []string
	for _, s := range m.GetAgents() {
		got = append(got, s.GetAgent().GetName()+" "+strings.TrimPrefix(s.GetHealth().String(), "AGENT_HEALTH_"))
	}
	if text := strings.Join(got, ", "); text != want {
		h.T.Errorf("agents %s, want %s", text, want)
	}
}

func TestProbeClock(t *testing.T) {
	h := start(t)
	before := clock.Now()
	m, err := spatev1.NewControlServiceClient(h.Conn).ProbeClock(t.Context(), &spatev1.ProbeClockRequest{})
	after := clock.Now()
	if err != nil {
		t.Fatal(err)
	}
	r, s := clock.Instant(m.GetReceivedClockNs()), clock.Instant(m.GetSentClockNs())
	if before > r || r > s || s > after {
		t.Errorf("asked %d, received %d, sent %d, answered %d", before, r, s, after)
	}
}

// Programs of another version may take part, and the run's followers are told about each once.
func TestAnotherVersionIsTold(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	h.c.mu.Lock()
	h.c.fleet.Session("a").Info.Version = "v0.0.1"
	h.c.mu.Unlock()
	submitted, err := h.Runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{
		PlanYaml: []byte(clustertest.PlanOf(`{concurrency: [1], requests: 4}`)), MinAgents: 1,
		Secrets: map[string]string{"env:KEY": clustertest.SecretKey},
		Version: "v0.0.2", Definitions: measure.Definitions,
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Apply()
	a.Armed()
	a.Acked(clustertest.Closing(clustertest.Values(a.Snapshot(0), 4, 1)))
	said := clustertest.Texts(h.Follow(submitted.GetRunId()))
	if len(said) != 2 || !strings.Contains(said[0], "agent a has version v0.0.1, the coordinator has test") ||
		!strings.Contains(said[1], "the client has version v0.0.2, the coordinator has test") {
		t.Errorf("%q", said)
	}
}

// A client with other definitions is refused before anything begins.
func TestClientsOfOtherDefinitionsAreRefused(t *testing.T) {
	h := start(t)
	for name, c := range map[string]struct {
		change func(q *spatev1.SubmitRunRequest)
		code   codes.Code
		says   string
	}{
		"the same": {func(q *spatev1.SubmitRunRequest) { q.Definitions = measure.Definitions }, codes.OK, ""},
		"none":     {func(*spatev1.SubmitRunRequest) {}, codes.OK, ""},
		"others": {func(q *spatev1.SubmitRunRequest) {
			q.Definitions, q.Version = measure.Definitions+1,
				"v9"
		}, codes.FailedPrecondition, fmt.Sprintf(`("v9") reads numbers by definitions %d, this coordinator measures by %d`,
			measure.Definitions+1, measure.Definitions)},
		"too long a name": {func(q *spatev1.SubmitRunRequest) { q.Version = strings.Repeat("v", 129) },
			codes.InvalidArgument, "longer than 128 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			q := &spatev1.SubmitRunRequest{PlanYaml: []byte(clustertest.Keyless), MinAgents: 1}
			c.change(q)
			_, err := h.Runs.SubmitRun(t.Context(), q)
			if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
	runs, err := h.Runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{})
	if err != nil || len(runs.GetRuns()) != 2 {
		t.Errorf("%d runs, error %v: want those of the two that were taken", len(runs.GetRuns()), err)
	}
}

// The reason why an agent was lost is in the ledger and in results. It is for people, so it contains no gRPC codes,
// however deeply nested.
func TestReasonsHaveNoGRPCCodes(t *testing.T) {
	broken := status.Error(codes.Unavailable, "the connection was reset")
	for _, c := range []struct {
		err  error
		want string
	}{
		{nil, "it closed its control stream"},
		{status.FromContextError(context.Canceled).Err(), "control stream broken"},
		{broken, "control stream ended: the connection was reset"},
		{fmt.Errorf("hello: %w", broken), "control stream ended: hello: the connection was reset"},
		{errors.Join(broken, io.ErrUnexpectedEOF), "control stream ended: the connection was reset\nunexpected EOF"},
	} {
		if got := reasonOf(c.err); got != c.want {
			t.Errorf("%v: %q, want %q", c.err, got, c.want)
		}
	}
}

// The answer to a heartbeat makes it a clock probe.
func TestHeartbeatsAreAnswered(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	for number := uint64(1); number <= 3; number++ {
		before := clock.Now()
		a.Say(clustertest.Heartbeat(number))
		m := a.Hear().GetRenewed()
		after := clock.Now()
		r, s := clock.Instant(m.GetReceivedClockNs()), clock.Instant(m.GetSentClockNs())
		if m.GetNumber() != number || before > r || r > s || s > after {
			t.Errorf("heartbeat %d, sent at %d, is answered at %d with %v", number, before, after, m)
		}
	}
	if s := h.c.Stats(); s.Renewals != 3 {
		t.Errorf("%+v", s)
	}
}

// A drained agent that is stopped is missing, also after a restart of the coordinator.
func TestADrainedAgentThatIsStoppedIsMissing(t *testing.T) {
	dir := t.TempDir()
	setUp := func(c *Config) { c.DataDir = dir }
	h := start(t, setUp)
	join := func(name, region string) *fleet.Session {
		s, err := h.c.join(&spatev1.Hello{Incarnation: 1, Agent: &spatev1.AgentInfo{Name: name, Region: region}},
			"", certs.Identity{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	join("eu-1", "eu")
	stopped := []*fleet.Session{join("eu-2", "eu"), join("us-1", "us")}
	_, err := h.Runs.CordonAgents(t.Context(), &spatev1.CordonAgentsRequest{
		Agents: []string{"eu-2", "us-1"}, Cordon: spatev1.Cordon_CORDON_DRAINED,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stopped {
		h.c.leave(s, "it closed its control stream")
	}
	h.checkHealth("eu-1 READY, eu-2 MISSING, us-1 MISSING")
	if err := h.c.Close(); err != nil {
		t.Fatal(err)
	}
	h = start(t, setUp)
	join("eu-1", "eu")
	h.checkHealth("eu-1 READY, eu-2 MISSING, us-1 MISSING")
}

func TestAnAgentOfARunThatDoesNotGoOnHereIsToldToStop(t *testing.T) {
	h := start(t)
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	control, err := spatev1.NewControlServiceClient(h.Conn).Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ref := &spatev1.AssignmentRef{RunId: "gone", StageIndex: 3, Revision: 1}
	err = control.Send(&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Hello{Hello: &spatev1.Hello{
		Protocol: access.Protocol, Definitions: measure.Definitions, Incarnation: 1, Agent: &spatev1.AgentInfo{Name: "a"},
		Resume: ref, Armed: true,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := control.Recv(); err != nil || m.GetWelcome() == nil {
		t.Fatalf("%v, %v", m, err)
	}
	m, err := control.Recv()
	if err != nil || m.GetStop().GetRef().GetStageIndex() != 3 || !m.GetStop().GetImmediately() {
		t.Errorf("%v, %v", m, err)
	}
}

// A peer with a different certificate cannot push in an agent's name.
func TestSnapshotsAreTakenFromTheirAgentsOnly(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
	a.Apply()
	a.Armed()
	h.c.mu.Lock()
	h.c.fleet.Session("a").Who = certs.Identity{Role: certs.Agent, Name: "eu"}
	h.c.fleet.Join(h.c.fleet.Session("a"))
	h.c.mu.Unlock()
	s := clustertest.Closing(clustertest.Values(a.Snapshot(0), 4, 1))
	if _, err := h.c.receiveSnapshot(s, certs.Identity{Role: certs.Agent,
		Name: "us"}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("taken from another: %v", err)
	}
	if m, err := h.c.receiveSnapshot(s, certs.Identity{Role: certs.Agent, Name: "eu"}); err != nil ||
		m.GetRefused() != "" {
		t.Errorf("not taken: %v, %v", m, err)
	}
	if end := h.End(id); !end.GetComplete() {
		t.Errorf("%v", end)
	}
}

// Knowing a process's incarnation, which is in every ledger, does not let a peer take its place, neither while the
// process is connected nor afterwards.
func TestASessionIsBoundToItsCertificate(t *testing.T) {
	h := start(t)
	hello := func(incarnation uint64) *spatev1.Hello {
		return &spatev1.Hello{Protocol: access.Protocol, Definitions: measure.Definitions, Incarnation: incarnation,
			Agent: &spatev1.AgentInfo{Name: "z"}}
	}
	eu, us := certs.Identity{Role: certs.Agent, Name: "eu"}, certs.Identity{Role: certs.Agent, Name: "us"}
	first, err := h.c.join(hello(7), "1.1.1.1:1", eu)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.c.join(hello(7), "2.2.2.2:2", us); status.Code(err) != codes.PermissionDenied {
		t.Errorf("while it is connected: %v", err)
	}
	h.c.leave(first, "it went away")
	if _, err := h.c.join(hello(7), "2.2.2.2:2", us); status.Code(err) != codes.PermissionDenied {
		t.Errorf("while it is away: %v", err)
	}
	push := &spatev1.Snapshot{Key: &spatev1.SnapshotKey{RunId: "r", Agent: "z", Incarnation: 7, Sequence: 1}}
	if _, err := h.c.receiveSnapshot(push, us); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a snapshot: %v", err)
	}
	if _, err := h.c.join(hello(7), "1.1.1.1:3", eu); err != nil {
		t.Errorf("the process itself: %v", err)
	}
}
