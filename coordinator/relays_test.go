package coordinator

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/coordinator/relay"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// region is a coordinator's harness whose agents connect through a relay. Clients connect to the coordinator itself.
type region struct {
	*harness
	relay *relay.Relay
	cut   func() // breaks the relay's connections to the coordinator
}

// through starts a relay of a coordinator, and waits until it is connected.
func (h *harness) through(name string) *region {
	h.t.Helper()
	line := &line{to: h.listener}
	r, err := relay.New(relay.Config{
		Name: name, DatasetDir: h.t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Coordinator: func(context.Context) (string, error) { return "passthrough:///coordinator", nil },
		DialOptions: dialOptions(line.dial),
	})
	if err != nil {
		h.t.Fatal(err)
	}
	l := bufconn.Listen(1 << 20)
	served := make(chan error, 1)
	go func() { served <- r.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///relay", dialOptions(l.DialContext)...)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() {
		if err := errors.Join(conn.Close(), r.Close(), <-served); err != nil {
			h.t.Error(err)
		}
	})
	own := *h
	own.conn = conn
	out := &region{harness: &own, relay: r, cut: line.cut}
	out.awaitLinks(1)
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

// awaitLinks waits until the relay has connected to its coordinator that often.
func (r *region) awaitLinks(n uint64) {
	r.t.Helper()
	eventually(r.t.(*testing.T), "the relay is connected", func() bool { return r.relay.Stats().Links == n })
}

// An agent behind a relay takes a run from its assignment to its end: what it and the coordinator say arrives in order,
// each snapshot is acked once it is in the ledger, and the list of agents shows the relay.
func TestARunThroughARelay(t *testing.T) {
	h := start(t)
	r := h.through("eu-relay")
	a, b := r.agent("a"), h.agent("b") // one through the relay, one without
	id := h.submitPlan(2, planOf(`{concurrency: [2], requests: 4}`))
	for _, one := range []*agent{a, b} {
		one.apply()
	}
	a.armed()
	b.armed()
	list, err := h.runs.ListAgents(t.Context(), &spatev1.ListAgentsRequest{})
	if err != nil || len(list.GetAgents()) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if got := []string{list.GetAgents()[0].GetRelay(), list.GetAgents()[1].GetRelay()}; got[0] != "eu-relay" || got[1] != "" {
		t.Errorf("relays %q", got)
	}
	a.say(heartbeat(7))
	if m := a.hear(); m.GetRenewed().GetNumber() != 7 {
		t.Errorf("the answer to a heartbeat: %v", m)
	}
	first := a.snapshot(0)
	a.acked(first)
	a.acked(first) // its ack was lost
	a.acked(a.last(1))
	b.acked(b.snapshot(0))
	b.acked(b.last(1))
	if e := h.end(id); e.GetOutcome() != spatev1.Outcome_OUTCOME_DONE || !e.GetComplete() {
		t.Errorf("the run ended with %v", e)
	}
	if s := h.c.Stats(); s.Snapshots != 4 || s.Duplicates != 1 {
		t.Errorf("%d snapshots, %d of them again", s.Snapshots, s.Duplicates)
	}
}

// Snapshots that an agent sends without waiting are added and answered in its order, beside those of other agents.
func TestARelayKeepsTheOrderOfSnapshots(t *testing.T) {
	h := start(t)
	r := h.through("eu-relay")
	agents := []*agent{r.agent("a"), r.agent("b"), r.agent("c")}
	const each = 30
	id := h.submitPlan(3, planOf(`{concurrency: [3], requests: 90}`))
	for _, a := range agents {
		a.apply()
	}
	for _, a := range agents {
		a.armed()
		for i := range each {
			s := a.snapshot(uint32(i))
			if i == each-1 {
				a.sequence--
				s = a.last(uint32(i))
			}
			if err := a.push.Send(&spatev1.PushRequest{Snapshot: s}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, a := range agents {
		for i := range uint64(each) {
			m, err := a.push.Recv()
			if err != nil || m.GetRefused() != "" || m.GetKey().GetSequence() != i+1 {
				t.Fatalf("%s: answer %d is %v, %v", a.name, i+1, m, err)
			}
		}
	}
	if e := h.end(id); !e.GetComplete() {
		t.Errorf("the run ended with %v", e)
	}
}

// A relay tells each agent why the coordinator ends its session, and only that agent.
func TestARelayEndsOneSession(t *testing.T) {
	r := start(t).through("eu-relay")
	a := r.agent("a")
	if _, err := r.dial("a", 2); status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("a second process with the name: %v", err)
	}
	b := r.agent("b")
	b.say(&spatev1.ConnectRequest{})
	if _, err := b.control.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an empty message: %v", err)
	}
	a.say(heartbeat(1))
	if m := a.hear(); m.GetRenewed().GetNumber() != 1 {
		t.Errorf("the other agent hears %v", m)
	}
}

// A snapshot that a coordinator cannot take ends the stream of its agent, and no other.
func TestARelayEndsOneStreamOfSnapshots(t *testing.T) {
	h := start(t)
	r := h.through("eu-relay")
	a, b := r.agent("a"), r.agent("b")
	id := h.submitPlan(2, planOf(`{concurrency: [2], requests: 2}`))
	a.apply()
	b.apply()
	a.armed()
	b.armed()
	stranger := b.snapshot(0)
	b.sequence--
	stranger.Key.Incarnation = 99
	h.c.mu.Lock()
	h.c.own("b", owner{incarnation: 99, who: certs.Identity{Role: certs.Agent, Name: "other"}}) // as if its certificate were another one
	h.c.mu.Unlock()
	if err := b.push.Send(&spatev1.PushRequest{Snapshot: stranger}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.push.Recv(); status.Code(err) != codes.PermissionDenied {
		t.Errorf("its stream: %v", err)
	}
	a.acked(closing(values(a.snapshot(0), 1, 1)))
	var err error
	if b.push, err = spatev1.NewMetricsServiceClient(r.conn).Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.acked(closing(values(b.snapshot(0), 1, 1)))
	h.end(id)
}

// When the relay's connection breaks, the streams of its agents end. They come back through it, and the run continues.
func TestARelayLosesItsCoordinatorAndFindsItAgain(t *testing.T) {
	h := start(t)
	r := h.through("eu-relay")
	a := r.agent("a")
	id := h.submitPlan(1, planOf(`{concurrency: [2], requests: 2}`))
	a.apply()
	a.armed()
	first := a.snapshot(0)
	a.acked(first)
	r.cut()
	if _, err := a.control.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the control stream ended with %v", err)
	}
	if _, err := a.push.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of snapshots ended with %v", err)
	}
	r.awaitLinks(2)
	again, err := r.resume(a)
	if err != nil {
		t.Fatal(err)
	}
	again.acked(first)
	again.acked(again.last(1))
	if e := h.end(id); !e.GetComplete() {
		t.Errorf("the run ended with %v", e)
	}
	if s := h.c.Stats(); s.Snapshots != 2 || s.Duplicates != 1 {
		t.Errorf("%d snapshots, %d of them again", s.Snapshots, s.Duplicates)
	}
}

// resume connects an agent again, with the assignment that it has.
func (r *region) resume(a *agent) (*agent, error) {
	r.t.Helper()
	again, err := r.dial(a.name, a.incarnation)
	if err == nil {
		again.assigned, again.sequence, again.first = a.assigned, a.sequence, a.first
	}
	return again, err
}

// A relay that closes ends the sessions of its agents at once.
func TestARelayClosesItsAgentsSessions(t *testing.T) {
	h := start(t)
	r := h.through("eu-relay")
	a := r.agent("a")
	if err := r.relay.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.control.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "closing") {
		t.Errorf("the control stream ended with %v", err)
	}
	eventually(t, "the coordinator knows", func() bool { return len(h.c.agents()) == 0 })
	if b := h.agent("a"); b == nil { // directly, which is another address of its list
		t.Error("the agent cannot come back")
	}
}

// What only a coordinator can do is refused with a reason.
func TestARelayServesNoClients(t *testing.T) {
	r := start(t).through("eu-relay")
	_, err := spatev1.NewRunServiceClient(r.conn).ListRuns(t.Context(), &spatev1.ListRunsRequest{})
	if want := "eu-relay is a relay and serves agents only: ask its coordinator (ListRuns)"; status.Convert(err).Message() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// A relay answers clock probes with the coordinator's clock, and how wrong that may be.
func TestARelayKnowsTheClock(t *testing.T) {
	r := start(t).through("eu-relay")
	m, err := spatev1.NewControlServiceClient(r.conn).ProbeClock(t.Context(), &spatev1.ProbeClockRequest{})
	if err != nil {
		t.Fatal(err)
	}
	direct, err := controlService{}.ProbeClock(t.Context(), nil) // of the same clock, a little later
	if err != nil {
		t.Fatal(err)
	}
	if m.GetUncertaintyNs() <= 0 || m.GetSentClockNs() < m.GetReceivedClockNs() ||
		m.GetSentClockNs()-m.GetUncertaintyNs() > direct.GetReceivedClockNs() {
		t.Errorf("%v, and then the coordinator itself says %v", m, direct)
	}
}

// A dataset is fetched once, for all agents, and served from the relay's own directory afterwards.
func TestARelayFetchesADatasetOnce(t *testing.T) {
	h := start(t)
	data := []byte(strings.Repeat("row\n", 1000))
	sum := h.put(data)
	r := h.through("eu-relay")
	read := func(offset, size uint64) (string, error) {
		stream, err := spatev1.NewControlServiceClient(r.conn).FetchDataset(t.Context(),
			&spatev1.FetchDatasetRequest{Sha256: sum, Offset: offset, Size: size})
		if err != nil {
			return "", err
		}
		var got strings.Builder
		for {
			m, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return got.String(), nil
			}
			if err != nil {
				return "", err
			}
			got.Write(m.GetData())
		}
	}
	if _, err := read(0, 7); status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "relay eu-relay: ") {
		t.Errorf("of another size: %v", err)
	}
	if got, err := read(0, uint64(len(data))); got != string(data) || err != nil {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := os.RemoveAll(h.c.cfg.DatasetDir); err != nil {
		t.Fatal(err)
	}
	if got, err := read(4, uint64(len(data))); got != string(data[4:]) || err != nil {
		t.Errorf("the rest, when the coordinator has it no more: %d bytes, %v", len(got), err)
	}
}

// put uploads a dataset and returns its hash.
func (h *harness) put(data []byte) string {
	h.t.Helper()
	sum := sha256.Sum256(data)
	stream, err := h.runs.PutDataset(h.t.Context())
	if err == nil {
		err = stream.Send(&spatev1.PutDatasetRequest{
			Sha256: hex.EncodeToString(sum[:]), Size: uint64(len(data)), Data: data,
		})
	}
	if err == nil {
		_, err = stream.CloseAndRecv()
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return hex.EncodeToString(sum[:])
}

// A snapshot that is too large is refused to its agent, which can act on that, and breaks nothing for others.
func TestARelayPassesOnWhatIsTooLarge(t *testing.T) {
	h := start(t)
	r := h.through("eu-relay")
	a, b := r.agent("a"), r.agent("b")
	h.submitPlan(2, planOf(`{concurrency: [2], requests: 2}`))
	a.apply()
	b.apply()
	a.armed()
	b.armed()
	huge := a.snapshot(0)
	huge.Records = []*spatev1.RequestRecord{{Error: strings.Repeat("x", merge.MaxSnapshotBytes)}}
	if m := a.deliver(huge); !strings.Contains(m.GetRefused(), "bytes") {
		t.Errorf("it is answered by %v", m)
	}
	b.acked(closing(values(b.snapshot(0), 1, 1)))
	if n := r.relay.Stats().Links; n != 1 {
		t.Errorf("the relay has connected %d times", n)
	}
}

// What a faulty relay sends ends its stream, with a reason.
func TestFaultyRelaysAreRefused(t *testing.T) {
	hello := &spatev1.FromAgent_Connected{Connected: &spatev1.AgentConnected{}}
	for name, tc := range map[string]struct {
		requests []*spatev1.RelayControlRequest
		says     string
	}{
		"no name": {[]*spatev1.RelayControlRequest{{}}, `relay name "": want 1 to 64`},
		"a stream that is not open": {[]*spatev1.RelayControlRequest{
			{Relay: "r", Messages: []*spatev1.FromAgent{{Stream: 3, Event: &spatev1.FromAgent_Said{}}}},
		}, "stream 3 is not open"},
		"a stream twice": {[]*spatev1.RelayControlRequest{
			{Relay: "r", Messages: []*spatev1.FromAgent{{Stream: 3, Event: hello}, {Stream: 3, Event: hello}}},
		}, "stream 3 is open already"},
		"too many messages": {many(60, &spatev1.RelayControlRequest{Relay: "r"}), "more than 50 messages"},
	} {
		h := start(t, func(c *Config) { c.Limits.RelayRate, c.Limits.RelayBurst = 1, 50 })
		stream, err := spatev1.NewRelayServiceClient(h.conn).RelayControl(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range tc.requests {
			if stream.Send(m) != nil {
				break // it has ended already
			}
		}
		for err == nil {
			_, err = stream.Recv()
		}
		if !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want %q", name, err, tc.says)
		}
	}
}

func many[M any](n int, m M) (all []M) {
	for range n {
		all = append(all, m)
	}
	return all
}
