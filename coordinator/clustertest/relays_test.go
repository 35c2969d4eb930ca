package clustertest_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/clustertest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// An agent behind a relay takes a run from its assignment to its end: what it and the coordinator say arrives in order,
// each snapshot is acked once it is in the ledger, and the list of agents shows the relay.
func TestARunThroughARelay(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.Through("eu-relay")
	a, b := r.Agent("a"), h.Agent("b") // one through the relay, one without
	id := h.SubmitPlan(2, clustertest.PlanOf(`{concurrency: [2], requests: 4}`))
	for _, one := range []*clustertest.Agent{a, b} {
		one.Apply()
	}
	a.Armed()
	b.Armed()
	list, err := h.Runs.ListAgents(t.Context(), &spatev1.ListAgentsRequest{})
	if err != nil || len(list.GetAgents()) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	if got := []string{list.GetAgents()[0].GetRelay(), list.GetAgents()[1].GetRelay()}; got[0] != "eu-relay" || got[1] != "" {
		t.Errorf("relays %q", got)
	}
	a.Beat(7)
	first := a.Snapshot(0)
	a.Acked(first)
	a.Acked(first) // its ack was lost
	a.Acked(a.Last(1))
	b.Acked(b.Snapshot(0))
	b.Acked(b.Last(1))
	if e := h.End(id); e.GetOutcome() != spatev1.Outcome_OUTCOME_DONE || !e.GetComplete() {
		t.Errorf("the run ended with %v", e)
	}
	if s := h.c.Stats(); s.Snapshots != 4 || s.Duplicates != 1 {
		t.Errorf("%d snapshots, %d of them again", s.Snapshots, s.Duplicates)
	}
}

// Snapshots that an agent sends without waiting are added and answered in its order, beside those of other agents.
func TestARelayKeepsTheOrderOfSnapshots(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.Through("eu-relay")
	agents := []*clustertest.Agent{r.Agent("a"), r.Agent("b"), r.Agent("c")}
	const each = 30
	id := h.SubmitPlan(3, clustertest.PlanOf(`{concurrency: [3], requests: 90}`))
	for _, a := range agents {
		a.Apply()
	}
	for _, a := range agents {
		a.Armed()
		for i := range each {
			s := a.Snapshot(uint32(i))
			if i == each-1 {
				a.Sequence--
				s = a.Last(uint32(i))
			}
			if err := a.Push.Send(&spatev1.PushRequest{Snapshot: s}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, a := range agents {
		for i := range uint64(each) {
			m, err := a.Push.Recv()
			if err != nil || m.GetRefused() != "" || m.GetKey().GetSequence() != i+1 {
				t.Fatalf("%s: answer %d is %v, %v", a.Name, i+1, m, err)
			}
		}
	}
	if e := h.End(id); !e.GetComplete() {
		t.Errorf("the run ended with %v", e)
	}
}

// A relay tells each agent why the coordinator ends its session, and only that agent.
func TestARelayEndsOneSession(t *testing.T) {
	t.Parallel()
	r := start(t).Through("eu-relay")
	a := r.Agent("a")
	if _, err := r.Dial("a", 2); status.Code(err) != codes.AlreadyExists || !strings.Contains(err.Error(), "is taken") {
		t.Errorf("a second process with the name: %v", err)
	}
	b := r.Agent("b")
	b.Say(&spatev1.ConnectRequest{})
	if _, err := b.Control.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an empty message: %v", err)
	}
	a.Say(clustertest.Heartbeat(1))
	if m := a.Hear(); m.GetRenewed().GetNumber() != 1 {
		t.Errorf("the other agent hears %v", m)
	}
}

// When the relay's connection breaks, the streams of its agents end. They come back through it, and the run continues.
func TestARelayLosesItsCoordinatorAndFindsItAgain(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.Through("eu-relay")
	a := r.Agent("a")
	id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [2], requests: 2}`))
	a.Apply()
	a.Armed()
	first := a.Snapshot(0)
	a.Acked(first)
	r.Cut()
	if _, err := a.Control.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the control stream ended with %v", err)
	}
	if _, err := a.Push.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the stream of snapshots ended with %v", err)
	}
	r.AwaitLinks(2)
	again, err := r.Resume(a)
	if err != nil {
		t.Fatal(err)
	}
	again.Acked(first)
	again.Acked(again.Last(1))
	if e := h.End(id); !e.GetComplete() {
		t.Errorf("the run ended with %v", e)
	}
	if s := h.c.Stats(); s.Snapshots != 2 || s.Duplicates != 1 {
		t.Errorf("%d snapshots, %d of them again", s.Snapshots, s.Duplicates)
	}
}

// A relay that closes ends the sessions of its agents at once.
func TestARelayClosesItsAgentsSessions(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.Through("eu-relay")
	a := r.Agent("a")
	if err := r.Relay.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Control.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "closing") {
		t.Errorf("the control stream ended with %v", err)
	}
	clustertest.Eventually(t, "the coordinator knows", func() bool {
		list, err := h.Runs.ListAgents(t.Context(), &spatev1.ListAgentsRequest{})
		return err == nil && len(list.GetAgents()) == 0
	})
	if b := h.Agent("a"); b == nil { // directly, which is another address of its list
		t.Error("the agent cannot come back")
	}
}

// What only a coordinator can do is refused with a reason.
func TestARelayServesNoClients(t *testing.T) {
	t.Parallel()
	r := start(t).Through("eu-relay")
	_, err := spatev1.NewRunServiceClient(r.Conn).ListRuns(t.Context(), &spatev1.ListRunsRequest{})
	want := "eu-relay is a relay and serves agents only: give --coordinator the address of the coordinator behind it, " +
		"which it reaches at coordinator"
	if status.Convert(err).Message() != want {
		t.Errorf("%v, want %q", err, want)
	}
}

// A relay answers clock probes, and heartbeats, with the coordinator's clock, and how wrong that may be.
func TestARelayKnowsTheClock(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.Through("eu-relay")
	m, err := spatev1.NewControlServiceClient(r.Conn).ProbeClock(t.Context(), &spatev1.ProbeClockRequest{})
	if err != nil {
		t.Fatal(err)
	}
	direct, err := spatev1.NewControlServiceClient(h.Conn).ProbeClock(t.Context(), // of the same clock, a little later
		&spatev1.ProbeClockRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if m.GetUncertaintyNs() <= 0 || m.GetSentClockNs() < m.GetReceivedClockNs() ||
		m.GetSentClockNs()-m.GetUncertaintyNs() > direct.GetReceivedClockNs() {
		t.Errorf("%v, and then the coordinator itself says %v", m, direct)
	}
	a := r.Agent("a")
	before := clock.Now() // the coordinator's clock is this machine's
	a.Say(clustertest.Heartbeat(1))
	beat := a.Hear().GetRenewed()
	after, wrong := clock.Now(), clock.Instant(beat.GetUncertaintyNs())
	received, sent := clock.Instant(beat.GetReceivedClockNs()), clock.Instant(beat.GetSentClockNs())
	if wrong <= 0 || received < before-wrong || received > sent || sent > after+wrong {
		t.Errorf("a heartbeat, sent at %d, is answered at %d with %v", before, after, beat)
	}
}

// A dataset is fetched once, for all agents, and served from the relay's own directory afterwards.
func TestARelayFetchesADatasetOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	data := []byte(strings.Repeat("row\n", 1000))
	sum := h.put(data)
	r := h.Through("eu-relay")
	read := func(offset, size uint64) (string, error) {
		stream, err := spatev1.NewControlServiceClient(r.Conn).FetchDataset(t.Context(),
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
	if err := os.RemoveAll(filepath.Join(h.dataDir, "datasets")); err != nil {
		t.Fatal(err)
	}
	if got, err := read(4, uint64(len(data))); got != string(data[4:]) || err != nil {
		t.Errorf("the rest, when the coordinator has it no more: %d bytes, %v", len(got), err)
	}
}

// put uploads a dataset and returns its hash.
func (h *harness) put(data []byte) string {
	h.T.Helper()
	sum := sha256.Sum256(data)
	stream, err := h.Runs.PutDataset(h.T.Context())
	if err == nil {
		err = stream.Send(&spatev1.PutDatasetRequest{
			Sha256: hex.EncodeToString(sum[:]), Size: uint64(len(data)), Data: data,
		})
	}
	if err == nil {
		_, err = stream.CloseAndRecv()
	}
	if err != nil {
		h.T.Fatal(err)
	}
	return hex.EncodeToString(sum[:])
}

// A snapshot that is too large is refused to its agent, which can act on that, and breaks nothing for others.
func TestARelayPassesOnWhatIsTooLarge(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.Through("eu-relay")
	a, b := r.Agent("a"), r.Agent("b")
	h.SubmitPlan(2, clustertest.PlanOf(`{concurrency: [2], requests: 2}`))
	a.Apply()
	b.Apply()
	a.Armed()
	b.Armed()
	huge := a.Snapshot(0)
	huge.Records = []*spatev1.RequestRecord{{Error: strings.Repeat("x", merge.MaxSnapshotBytes)}}
	if m := a.Deliver(huge); !strings.Contains(m.GetRefused(), "bytes") {
		t.Errorf("it is answered by %v", m)
	}
	b.Acked(clustertest.Closing(clustertest.Values(b.Snapshot(0), 1, 1)))
	if n := r.Relay.Stats().Links; n != 1 {
		t.Errorf("the relay has connected %d times", n)
	}
}

// A message without a snapshot is refused to its agent, and ends neither the relay nor its link.
func TestARelayPassesOnNothing(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.Through("eu-relay")
	a := r.Agent("a")
	if err := a.Push.Send(&spatev1.PushRequest{}); err != nil {
		t.Fatal(err)
	}
	if m, err := a.Push.Recv(); err != nil || m.GetRefused() == "" {
		t.Errorf("it is answered by %v, %v", m, err)
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
		h := start(t, func(c *coordinator.Config) { c.Limits.RelayRate, c.Limits.RelayBurst = 1, 50 })
		stream, err := spatev1.NewRelayServiceClient(h.Conn).RelayControl(t.Context())
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
