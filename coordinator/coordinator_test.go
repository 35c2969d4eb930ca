package coordinator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/membership"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// download fetches a ledger and returns the path of the copy.
func (h *harness) download(id string) string {
	h.t.Helper()
	stream, err := h.runs.FetchLedger(h.t.Context(), &spatev1.FetchLedgerRequest{RunId: id})
	if err != nil {
		h.t.Fatal(err)
	}
	var file bytes.Buffer
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			h.t.Fatal(err)
		}
		if len(m.GetData()) > 256<<10 {
			h.t.Errorf("a piece of %d bytes", len(m.GetData()))
		}
		file.Write(m.GetData())
	}
	path := filepath.Join(h.t.TempDir(), "ledger.db")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return path
}

// result computes a run's result from its fetched ledger.
func (h *harness) result(id string) *results.Result {
	h.t.Helper()
	r, err := results.Of(h.fetch(id))
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// fetchCode returns the status code with which a fetch fails.
func (h *harness) fetchCode(id string) codes.Code {
	h.t.Helper()
	stream, err := h.runs.FetchLedger(h.t.Context(), &spatev1.FetchLedgerRequest{RunId: id})
	if err != nil {
		h.t.Fatal(err)
	}
	_, err = stream.Recv()
	return status.Code(err)
}

// runStage plays the agents through one stage without faults.
func runStage(agents ...*agent) {
	for _, a := range agents {
		a.apply()
	}
	for _, a := range agents {
		a.armed()
	}
	for _, a := range agents {
		a.acked(a.snapshot(0))
		a.acked(a.last(1))
	}
}

func TestTwoAgentsRunAPlan(t *testing.T) {
	watch := &recorder{}
	h := start(t, func(c *Config) { c.OpenSink = func(string) (sink.Sink, error) { return watch, nil } })
	a, b := h.agent("a"), h.agent("b")
	before := clock.Now()
	id := h.submit(2)
	a.apply()
	b.apply()
	if got := a.assigned.GetSecrets()["env:KEY"]; got != secretKey {
		t.Errorf("secret %q reached the agent", got)
	}
	if got := b.assigned.GetStripe(); got.GetRank() != 1 || !slices.Equal(got.GetWeights(), []uint32{1, 1}) {
		t.Errorf("stripe of b: %v", got)
	}
	startA, startB := a.armed(), b.armed()
	if startA.GetStartClockNs() != startB.GetStartClockNs() || clock.Instant(startA.GetStartClockNs()) <= before {
		t.Errorf("starts %v and %v", startA, startB)
	}
	if code := h.fetchCode(id); code != codes.FailedPrecondition {
		t.Errorf("fetching the ledger of a run in progress: %v", code)
	}
	for _, x := range []*agent{a, b} {
		x.acked(x.snapshot(0))
		x.acked(x.last(1))
	}
	runStage(a, b)
	events := h.follow(id)
	if end := events[len(events)-1].GetRunEnded(); end.GetOutcome() != spatev1.Outcome_OUTCOME_DONE ||
		!end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if again := h.follow(id); len(again) != len(events) {
		t.Errorf("a late follower got %d events, the first %d", len(again), len(events))
	}
	checkKinds(t, events, "run_began stage_began stage_ended stage_began stage_ended run_ended")
	r := h.result(id)
	if !r.Run.Complete || len(r.Stages) != 2 || r.Stages[1].Requests.Completed != 4 {
		t.Errorf("result %+v", r.Run)
	}
	if err := h.c.Close(); err != nil { // the run's worker closes the sink after followers know the end
		t.Error(err)
	}
	watch.check(t)
}

// checkKinds compares the kinds of events, without progress and notices.
func checkKinds(t *testing.T, events []*spatev1.RunEvent, want string) {
	t.Helper()
	var kinds []string
	for _, e := range events {
		if p, ok := points.Event(points.Run{}, e, func(uint32) *spatev1.Stage { return nil }); ok &&
			p.Kind != sink.Warning {
			kinds = append(kinds, string(p.Kind))
		}
	}
	if got := strings.Join(kinds, " "); got != want {
		t.Errorf("events %s, want %s", got, want)
	}
}

// recorder is a sink that keeps all points.
type recorder struct {
	mu      sync.Mutex
	windows []sink.WindowPoint
	stages  []sink.StagePoint
	events  []sink.EventPoint
	agents  []sink.AgentPoint
	closed  int
	late    bool // a point came after Close
}

func (r *recorder) Put(p sink.Point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch p := p.(type) {
	case sink.WindowPoint:
		r.windows = append(r.windows, p)
	case sink.StagePoint:
		r.stages = append(r.stages, p)
	case sink.EventPoint:
		if p.Kind != sink.Doubt && p.Kind != sink.Warning { // a busy machine has its own
			r.events = append(r.events, p)
		}
	case sink.AgentPoint:
		r.agents = append(r.agents, p)
	}
	r.late = r.late || r.closed > 0
}

func (r *recorder) Close(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed++
	return nil
}

// check expects two stages of two windows by two agents of one region at one endpoint: 2 x 2 x (whole, region,
// endpoint, a, b).
func (r *recorder) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.windows) != 20 || len(r.stages) != 6 || len(r.events) != 6 || r.closed != 1 || r.late {
		t.Fatalf("the sink got %d windows, %d stages, %d events, was closed %d times, was called after that: %v",
			len(r.windows), len(r.stages), len(r.events), r.closed, r.late)
	}
	whole := r.windows[0]
	if whole.Measures.Counters.GetCompleted() != 2 || whole.Scope.Agent != "" || whole.StageStart.IsZero() {
		t.Errorf("first window: %+v", whole)
	}
	last := r.windows[5]
	if last.Window != 1 || last.ToDate == nil || last.ToDate.Counters.GetCompleted() != 4 {
		t.Errorf("second window: %+v", last)
	}
	if s := r.stages[3]; !s.Complete || s.Scope.StageIndex != 1 || s.Measures.Counters.GetCompleted() != 4 {
		t.Errorf("second stage: %+v", s)
	}
}

func TestDuplicatesAreAckedAgainAndCountedOnce(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submit(1)
	a.apply()
	a.armed()
	s := a.snapshot(0)
	a.acked(s)
	a.acked(s)
	last := a.last(1)
	a.acked(last)
	a.apply()
	a.acked(last) // sent again after its stage has ended
	a.armed()
	a.acked(a.last(0))
	if end := h.end(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if got := h.c.Stats(); got.Snapshots != 3 || got.Duplicates != 2 || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
	if n := h.result(id).Stages[0].Requests.Completed; n != 2 {
		t.Errorf("%d requests in the result, want 2", n)
	}
}

func TestBadSnapshotsAreRefusedAndTheRestIsRight(t *testing.T) {
	h := start(t)
	a, stranger := h.agent("a"), &agent{h: h, name: "x", incarnation: 1}
	id := h.submit(1)
	a.apply()
	a.armed()
	stranger.assigned, stranger.push = a.assigned, a.push
	good := a.snapshot(0)
	bad := map[string]func(*spatev1.Snapshot){
		"another run":     func(s *spatev1.Snapshot) { s.Key.RunId = "other" },
		"another stage":   func(s *spatev1.Snapshot) { s.StageIndex = 1 },
		"another process": func(s *spatev1.Snapshot) { s.Key.Incarnation = 9 },
		"no key":          func(s *spatev1.Snapshot) { s.Key = nil },
	}
	for name, spoil := range bad {
		s := a.snapshot(0)
		a.sequence--
		spoil(s)
		if m := a.deliver(s); m.GetRefused() == "" {
			t.Errorf("%s: taken", name)
		}
	}
	if m := a.deliver(stranger.snapshot(0)); m.GetRefused() == "" {
		t.Error("a stranger's snapshot was taken")
	}
	if m := a.deliver(nil); m.GetRefused() == "" {
		t.Error("an empty message was taken")
	}
	a.acked(good)
	a.acked(a.last(1))
	runStage(a)
	if end := h.end(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if got := h.c.Stats().Refused; got != uint64(len(bad))+2 {
		t.Errorf("%d refused", got)
	}
}

// The content of a refused snapshot, perhaps the totals, is missing for good. So the stage ends with the reason and
// does not wait forever.
func TestARefusalEndsTheShare(t *testing.T) {
	for name, spoil := range map[string]func(*spatev1.Snapshot){
		"no sequence": func(s *spatev1.Snapshot) { s.Key.Sequence = 0 },
		"garbage":     func(s *spatev1.Snapshot) { s.Series[0].Distributions[0].Histogram = []byte("garbage") },
		"no endpoint": func(s *spatev1.Snapshot) { s.Series[0].Endpoint = 9 },
		"a number":    func(s *spatev1.Snapshot) { s.Series[0].Counters.OutputTokens = 1 << 60 },
		"other words": func(s *spatev1.Snapshot) { s.Key.Sequence--; s.Window = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			a := h.agent("a")
			id := h.submitPlan(1, planOf(`{concurrency: [1], requests: 4}`))
			a.apply()
			a.armed()
			a.acked(a.snapshot(0))
			last := a.last(1)
			spoil(last)
			if m := a.deliver(last); m.GetRefused() == "" {
				t.Fatal("taken")
			}
			if end := h.end(id); end.GetComplete() ||
				!strings.Contains(end.GetReason(), "agent a: the coordinator refused its snapshot") {
				t.Errorf("ended with %v", end)
			}
		})
	}
}

func TestAnOversizeSnapshotIsRefusedAndTheAgentComesBack(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	h.submit(1)
	a.apply()
	a.armed()
	large := a.snapshot(0)
	large.Series[0].Errors = []*spatev1.ErrorCount{{Example: strings.Repeat("x", merge.MaxSnapshotBytes)}}
	if m := a.deliver(large); !strings.Contains(m.GetRefused(), "bytes") {
		t.Errorf("a large snapshot: %v", m)
	}
	large.Series[0].Errors[0].Example = strings.Repeat("x", maxMessage)
	if err := a.push.Send(&spatev1.PushRequest{Snapshot: large}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.push.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("a huge snapshot: %v", err)
	}
	// The server counts it after the agent has got the answer.
	eventually(t, "two refused", func() bool { return h.c.Stats().Refused == 2 })
	var err error
	if a.push, err = spatev1.NewMetricsServiceClient(h.conn).Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.sequence--
	a.acked(a.snapshot(0))
}

func TestAKilledAgentFailsTheRunAndTheRestIsKept(t *testing.T) {
	h := start(t)
	a, b := h.agent("a"), h.agent("b")
	id := h.submit(2)
	for _, x := range []*agent{a, b} {
		x.apply()
	}
	for _, x := range []*agent{a, b} {
		x.armed()
		x.acked(x.snapshot(0))
	}
	b.hangUp()
	for _, err := h.dial("b", 2); status.Code(err) == codes.AlreadyExists; _,
		err = h.dial("b", 2) { // retry until the broken stream is noticed
	}
	if s := a.stopped(); s.GetImmediately() || !strings.Contains(s.GetReason(), "agent b lost") {
		t.Errorf("a is told %v", s)
	}
	a.acked(a.last(1))
	end := h.end(id)
	if end.GetOutcome() != spatev1.Outcome_OUTCOME_FAILED || end.GetComplete() ||
		!strings.Contains(end.GetReason(), "agent b lost") {
		t.Errorf("end: %v", end)
	}
	r := h.result(id)
	if r.Run.Complete || len(r.Stages) != 1 || r.Stages[0].Requests.Completed != 3 {
		t.Errorf("result: %+v", r)
	}
}

func TestASilentAgentIsLost(t *testing.T) {
	h := start(t, func(c *Config) { c.Run.Silence = 300 * time.Millisecond })
	a := h.agent("a")
	id := h.submit(1)
	a.apply()
	a.armed()
	if end := h.end(id); !strings.Contains(end.GetReason(), "agent a lost: no heartbeat for ") {
		t.Errorf("end: %v", end)
	}
}

func TestStopKeepsWhatWasMeasured(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submit(1)
	a.apply()
	a.armed()
	a.acked(a.snapshot(0))
	if _, err := h.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id, Immediately: true}); err != nil {
		t.Fatal(err)
	}
	if s := a.stopped(); !s.GetImmediately() {
		t.Errorf("told %v", s)
	}
	a.acked(a.last(1))
	if end := h.end(id); end.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED || end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if n := h.result(id).Stages[0].Requests.Completed; n != 2 {
		t.Errorf("%d requests kept, want 2", n)
	}
	if _, err := h.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id}); err != nil {
		t.Errorf("stopping an ended run: %v", err)
	}
}

func TestCloseInTheMiddleOfARun(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submit(1)
	a.apply()
	a.armed()
	a.acked(a.snapshot(0))
	if err := h.c.Close(); err != nil {
		t.Fatal(err)
	}
	a.stopped()
	l, err := ledger.OpenReadOnly(filepath.Join(h.dataDir, id, "ledger.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	r, err := results.Of(l)
	if err != nil {
		t.Fatal(err)
	}
	if r.Run.Complete || r.Run.Outcome == nil || *r.Run.Outcome != "failed" || r.Stages[0].Requests.Completed != 1 {
		t.Errorf("result %+v", r.Run)
	}
}

func TestAFollowerSeesProgress(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submit(1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := h.runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: id})
	if err != nil {
		t.Fatal(err)
	}
	a.apply()
	a.armed()
	a.say(
		&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{InFlight: 3}}},
	)
	a.acked(a.snapshot(0))
	for {
		m, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		// The first events may come before the snapshot is durable and shown.
		if p := m.GetEvent().GetStageProgress(); p.GetOutputTokensPerSecond() > 0 {
			if p.GetCompleted() != 1 || p.GetInFlight() != 3 || p.GetOutputTokensPerSecond() != 5 ||
				p.GetTtft().GetP50Ms() < 19 || p.GetTpot() != nil {
				t.Errorf("progress %v", p)
			}
			return
		}
	}
}

func TestBadSubmissionsStartNothing(t *testing.T) {
	h := start(t)
	for name, tc := range map[string]struct {
		q    *spatev1.SubmitRunRequest
		want string
	}{
		"no plan": {&spatev1.SubmitRunRequest{PlanPath: "p.yaml"}, "p.yaml"},
		"mistake": {&spatev1.SubmitRunRequest{PlanPath: "p.yaml", PlanYaml: []byte(plan + "speed: 3\n")},
			"p.yaml:13"},
		"no secret":     {&spatev1.SubmitRunRequest{PlanYaml: []byte(plan)}, "env:KEY"},
		"records":       {&spatev1.SubmitRunRequest{PlanYaml: []byte(plan), Records: "xml"}, "xml"},
		"no simulation": {&spatev1.SubmitRunRequest{PlanYaml: []byte(simulatedPlan)}, "simulat"},
	} {
		_, err := h.runs.SubmitRun(t.Context(), tc.q)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if entries, _ := os.ReadDir(h.dataDir); len(entries) != 2 || entries[0].Name() != "LOCK" ||
		entries[1].Name() != "datasets" {
		t.Errorf("left behind: %v", entries)
	}
}

var simulatedPlan = strings.Replace(strings.Replace(plan, `endpoints: ["http://east.example:8000"]`,
	"simulator: {endpoints: 1}", 1),
	"    model: m\n    api_key: env:KEY\n", "", 1)

func TestASinkThatCannotBeOpenedChangesNoResult(t *testing.T) {
	h := start(t, func(c *Config) { c.OpenSink = func(string) (sink.Sink, error) { return nil, errors.New("no") } })
	a := h.agent("a")
	id := h.submit(1)
	runStage(a)
	runStage(a)
	if end := h.end(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
}

func TestUnknownRuns(t *testing.T) {
	h := start(t)
	if code := h.fetchCode("no-such-run"); code != codes.NotFound {
		t.Errorf("fetch: %v", code)
	}
	if code := h.fetchCode("../../etc/passwd"); code != codes.InvalidArgument {
		t.Errorf("fetch of a path: %v", code)
	}
	if _, err := h.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("stop: %v", err)
	}
	stream, err := h.runs.FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("follow: %v", err)
	}
}

func TestSecretsAreNotKept(t *testing.T) {
	var logged lockedBuffer
	h := start(t, func(c *Config) { c.Logger = logged.logger() })
	a := h.agent("a")
	id := h.submit(1)
	runStage(a)
	runStage(a)
	events := fmt.Sprint(h.follow(id))
	ledger, err := os.ReadFile(h.download(id))
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{"ledger": string(ledger), "log": logged.text(), "events": events} {
		if strings.Contains(text, secretKey) {
			t.Errorf("the key is in the %s", what)
		}
	}
	if !strings.Contains(logged.text(), id) {
		t.Error("the log was not seen")
	}
}

func TestListenRules(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:7070": true, "localhost:0": true, "[::1]:7070": true,
		":7070": false, "0.0.0.0:7070": false, "10.1.2.3:7070": false, "example.com:1": false, "7070": false,
	} {
		cfg := Config{Listen: address, DataDir: "d"}
		if err := cfg.Validate(); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
		cfg.TLS = certs.Files{Cert: "c.crt"}
		if err := cfg.Validate(); (err == nil) != (address != "7070") {
			t.Errorf("%s with certificates: %v", address, err)
		}
		cfg.TLS, cfg.InsecurePlaintext = certs.Files{}, true
		if err := cfg.Validate(); (err == nil) != (address != "7070") {
			t.Errorf("%s with plaintext allowed: %v", address, err)
		}
	}
	err := Config{Listen: ":1"}.Validate()
	if err == nil || !strings.Contains(err.Error(), "spate certs --help") ||
		!strings.Contains(err.Error(), "data directory") {
		t.Errorf("error %v", err)
	}
}

func TestRunServesAndGossipsUntilItsContextEnds(t *testing.T) {
	log := new(lockedBuffer).logger()
	a, err := membership.Join(membership.Config{
		Name: "a", Bind: "127.0.0.1:0", Label: "run", Logger: log,
		Meta: membership.Meta{Role: membership.RoleAgent, Region: "eu"},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	c, err := New(Config{
		Listen: "127.0.0.1:0", DataDir: t.TempDir(), Logger: log,
		Gossip: &membership.Config{Name: "c", Bind: "127.0.0.1:0", Label: "run", Seeds: []string{a.Address()},
			Logger: log},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	if _, err := a.Coordinators(ctx); err != nil {
		t.Fatal(err)
	}
	checkFound(t, ctx, c)
	if c.GossipAddress() == "" {
		t.Error("no gossip address")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// checkFound waits until the coordinator lists the agent that only gossip has found.
func checkFound(t *testing.T, ctx context.Context, c *Coordinator) {
	t.Helper()
	c.mu.Lock()
	cluster := c.cluster
	c.mu.Unlock()
	for ctx.Err() == nil {
		changed := cluster.Changed()
		m, err := runService{c: c}.ListAgents(ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(m.GetAgents()) == 1 {
			s := m.GetAgents()[0]
			if s.GetAgent().GetName() != "a" || s.GetAgent().GetRegion() != "eu" ||
				s.GetHealth() != spatev1.AgentHealth_AGENT_HEALTH_FOUND {
				t.Errorf("found %v", s)
			}
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	t.Error("the agent was not found")
}

// TestPlanWithoutItsDataset: the plan is refused before any agent waits for the dataset.
func TestPlanWithoutItsDataset(t *testing.T) {
	h := start(t)
	_, err := h.runs.SubmitRun(context.Background(), &spatev1.SubmitRunRequest{
		PlanYaml: []byte(plan), Secrets: map[string]string{"env:KEY": secretKey},
		Datasets: map[string]*spatev1.Dataset{"10:5": {Sha256: strings.Repeat("0a", 32), Size: 1}},
	})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
}
