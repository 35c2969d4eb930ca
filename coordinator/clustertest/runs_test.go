package clustertest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/points"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/compare/history"
	"github.com/spate-load/spate/coordinator"
	"github.com/spate-load/spate/coordinator/clustertest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

var simulatedPlan = strings.Replace(strings.Replace(clustertest.Plan, `endpoints: ["http://east.example:8000"]`,
	"simulator: {endpoints: 1}", 1),
	"    model: m\n    api_key: env:KEY\n", "", 1)

func TestTwoAgentsRunAPlan(t *testing.T) {
	watch := &clustertest.Recorder{}
	h := start(t, func(c *coordinator.Config) { c.OpenSink = func(string) (sink.Sink, error) { return watch, nil } })
	a, b := h.Agent("a"), h.Agent("b")
	before := clock.Now()
	id := h.Submit(2)
	a.Apply()
	b.Apply()
	if got := a.Assigned.GetSecrets()["env:KEY"]; got != clustertest.SecretKey {
		t.Errorf("secret %q reached the agent", got)
	}
	if got := b.Assigned.GetStripe(); got.GetRank() != 1 || !slices.Equal(got.GetWeights(), []uint32{1, 1}) {
		t.Errorf("stripe of b: %v", got)
	}
	startA, startB := a.Armed(), b.Armed()
	if startA.GetStartClockNs() != startB.GetStartClockNs() || clock.Instant(startA.GetStartClockNs()) <= before {
		t.Errorf("starts %v and %v", startA, startB)
	}
	if code := h.FetchCode(id); code != codes.FailedPrecondition {
		t.Errorf("fetching the ledger of a run in progress: %v", code)
	}
	for _, x := range []*clustertest.Agent{a, b} {
		x.Acked(x.Snapshot(0))
		x.Acked(x.Last(1))
	}
	clustertest.RunStage(a, b)
	events := h.Follow(id)
	if end := events[len(events)-1].GetRunEnded(); end.GetOutcome() != spatev1.Outcome_OUTCOME_DONE ||
		!end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if again := h.Follow(id); len(again) != len(events) {
		t.Errorf("a late follower got %d events, the first %d", len(again), len(events))
	}
	checkKinds(t, events, "run_began stage_began stage_ended stage_began stage_ended run_ended")
	r := h.Result(id)
	if !r.Run.Complete || len(r.Stages) != 2 || r.Stages[1].Requests.Completed != 4 {
		t.Errorf("result %+v", r.Run)
	}
	if err := h.c.Close(); err != nil { // the run's worker closes the sink after followers know the end
		t.Error(err)
	}
	watch.Check(t)
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

func TestDuplicatesAreAckedAgainAndCountedOnce(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.Submit(1)
	a.Apply()
	a.Armed()
	s := a.Snapshot(0)
	a.Acked(s)
	a.Acked(s)
	last := a.Last(1)
	a.Acked(last)
	a.Apply()
	a.Acked(last) // sent again after its stage has ended
	a.Armed()
	a.Acked(a.Last(0))
	if end := h.End(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if got := h.c.Stats(); got.Snapshots != 3 || got.Duplicates != 2 || got.Refused != 0 {
		t.Errorf("%+v", got)
	}
	if n := h.Result(id).Stages[0].Requests.Completed; n != 2 {
		t.Errorf("%d requests in the result, want 2", n)
	}
}

// One answer acks up to four snapshots of which the agent said that more follow. The last one, and one that is refused,
// have an answer at once.
func TestOneAnswerAcksSeveralSnapshots(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	h.Submit(1)
	a.Apply()
	a.Armed()
	push := func(s *spatev1.Snapshot, more bool) {
		if err := a.Push.Send(&spatev1.PushRequest{Snapshot: s, More: more}); err != nil {
			t.Fatal(err)
		}
	}
	answer := func() *spatev1.PushResponse {
		m, err := a.Push.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for window := range uint32(10) {
		push(a.Snapshot(window), window < 9)
	}
	answers := 0
	for acked := uint64(0); acked < 10; answers++ {
		m := answer()
		next := m.GetKey().GetSequence()
		if next <= acked || next > acked+4 || m.GetRefused() != "" {
			t.Fatalf("after an ack up to snapshot %d: %v", acked, m)
		}
		acked = next
	}
	if answers > 4 { // the first ack is for one to four, and the last snapshot has its own
		t.Errorf("%d answers to 10 snapshots", answers)
	}
	strange := a.Snapshot(10)
	strange.StageIndex = 77
	push(strange, true)
	if m := answer(); m.GetKey().GetSequence() != 11 || m.GetRefused() == "" {
		t.Errorf("a snapshot of an unknown stage: %v", m)
	}
}

func TestBadSnapshotsAreRefusedAndTheRestIsRight(t *testing.T) {
	h := start(t)
	a, stranger := h.Agent("a"), &clustertest.Agent{Cluster: h.Cluster, Name: "x", Incarnation: 1}
	id := h.Submit(1)
	a.Apply()
	a.Armed()
	stranger.Assigned, stranger.Push = a.Assigned, a.Push
	good := a.Snapshot(0)
	bad := map[string]func(*spatev1.Snapshot){
		"another run":     func(s *spatev1.Snapshot) { s.Key.RunId = "other" },
		"another stage":   func(s *spatev1.Snapshot) { s.StageIndex = 1 },
		"another process": func(s *spatev1.Snapshot) { s.Key.Incarnation = 9 },
		"no key":          func(s *spatev1.Snapshot) { s.Key = nil },
	}
	for name, spoil := range bad {
		s := a.Snapshot(0)
		a.Sequence--
		spoil(s)
		if m := a.Deliver(s); m.GetRefused() == "" {
			t.Errorf("%s: taken", name)
		}
	}
	if m := a.Deliver(stranger.Snapshot(0)); m.GetRefused() == "" {
		t.Error("a stranger's snapshot was taken")
	}
	if m := a.Deliver(nil); m.GetRefused() == "" {
		t.Error("an empty message was taken")
	}
	a.Acked(good)
	a.Acked(a.Last(1))
	clustertest.RunStage(a)
	if end := h.End(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if got := h.c.Stats().Refused; got != uint64(len(bad))+2 {
		t.Errorf("%d refused", got)
	}
}

// The content of a refused snapshot, perhaps the totals, is missing for good. So the stage ends with the reason and
// does not wait forever.
func TestARefusalEndsTheShare(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*spatev1.Snapshot){
		"no sequence": func(s *spatev1.Snapshot) { s.Key.Sequence = 0 },
		"garbage":     func(s *spatev1.Snapshot) { s.Series[0].Distributions[0].Histogram = []byte("garbage") },
		"no endpoint": func(s *spatev1.Snapshot) { s.Series[0].Endpoint = 9 },
		"a number":    func(s *spatev1.Snapshot) { s.Series[0].Counters.OutputTokens = 1 << 60 },
		"other words": func(s *spatev1.Snapshot) { s.Key.Sequence--; s.Window = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			a := h.Agent("a")
			id := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
			a.Apply()
			a.Armed()
			a.Acked(a.Snapshot(0))
			last := a.Last(1)
			spoil(last)
			if m := a.Deliver(last); m.GetRefused() == "" {
				t.Fatal("taken")
			}
			if end := h.End(id); end.GetComplete() ||
				!strings.Contains(end.GetReason(), "agent a: the coordinator refused its snapshot") {
				t.Errorf("ended with %v", end)
			}
		})
	}
}

func TestAnOversizeSnapshotIsRefusedAndTheAgentComesBack(t *testing.T) {
	t.Parallel()
	h := start(t)
	a := h.Agent("a")
	h.Submit(1)
	a.Apply()
	a.Armed()
	large := a.Snapshot(0)
	large.Series[0].Errors = []*spatev1.ErrorCount{{Example: strings.Repeat("x", merge.MaxSnapshotBytes)}}
	if m := a.Deliver(large); !strings.Contains(m.GetRefused(), "bytes") {
		t.Errorf("a large snapshot: %v", m)
	}
	large.Series[0].Errors[0].Example = strings.Repeat("x", 2*merge.MaxSnapshotBytes)
	if err := a.Push.Send(&spatev1.PushRequest{Snapshot: large}); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Push.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Fatalf("a huge snapshot: %v", err)
	}
	// The server counts it after the agent has got the answer.
	clustertest.Eventually(t, "two refused", func() bool { return h.c.Stats().Refused == 2 })
	var err error
	if a.Push, err = spatev1.NewMetricsServiceClient(h.Conn).Push(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.Sequence--
	a.Acked(a.Snapshot(0))
}

func TestStopKeepsWhatWasMeasured(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.Submit(1)
	a.Apply()
	a.Armed()
	a.Acked(a.Snapshot(0))
	if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id, Immediately: true}); err != nil {
		t.Fatal(err)
	}
	if s := a.Stopped(); !s.GetImmediately() {
		t.Errorf("told %v", s)
	}
	a.Acked(a.Last(1))
	if end := h.End(id); end.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED || end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	if n := h.Result(id).Stages[0].Requests.Completed; n != 2 {
		t.Errorf("%d requests kept, want 2", n)
	}
	if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id}); err != nil {
		t.Errorf("stopping an ended run: %v", err)
	}
}

func TestCloseInTheMiddleOfARun(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.Submit(1)
	a.Apply()
	a.Armed()
	a.Acked(a.Snapshot(0))
	if err := h.c.Close(); err != nil {
		t.Fatal(err)
	}
	a.Stopped()
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
	t.Parallel()
	h := start(t)
	a := h.Agent("a")
	id := h.Submit(1)
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
	defer cancel()
	stream, err := h.Runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: id})
	if err != nil {
		t.Fatal(err)
	}
	a.Apply()
	a.Armed()
	a.Say(
		&spatev1.ConnectRequest{Message: &spatev1.ConnectRequest_Heartbeat{Heartbeat: &spatev1.Heartbeat{InFlight: 3}}},
	)
	a.Acked(a.Snapshot(0))
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
		"mistake": {&spatev1.SubmitRunRequest{PlanPath: "p.yaml", PlanYaml: []byte(clustertest.Plan + "speed: 3\n")},
			"p.yaml:13"},
		"no secret":     {&spatev1.SubmitRunRequest{PlanYaml: []byte(clustertest.Plan)}, "env:KEY"},
		"records":       {&spatev1.SubmitRunRequest{PlanYaml: []byte(clustertest.Plan), Records: "xml"}, "xml"},
		"no simulation": {&spatev1.SubmitRunRequest{PlanYaml: []byte(simulatedPlan)}, "simulat"},
	} {
		_, err := h.Runs.SubmitRun(t.Context(), tc.q)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	entries, err := os.ReadDir(h.dataDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains([]string{"LOCK", "datasets", history.Dir}, e.Name()) {
			t.Errorf("left behind: %v", e)
		}
	}
}

func TestASinkThatCannotBeOpenedChangesNoResult(t *testing.T) {
	h := start(t, func(c *coordinator.Config) {
		c.OpenSink = func(string) (sink.Sink, error) { return nil, errors.New("no") }
	})
	a := h.Agent("a")
	id := h.Submit(1)
	clustertest.RunStage(a)
	clustertest.RunStage(a)
	if end := h.End(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
}

func TestUnknownRuns(t *testing.T) {
	h := start(t)
	if code := h.FetchCode("no-such-run"); code != codes.NotFound {
		t.Errorf("fetch: %v", code)
	}
	if code := h.FetchCode("../../etc/passwd"); code != codes.InvalidArgument {
		t.Errorf("fetch of a path: %v", code)
	}
	if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("stop: %v", err)
	}
	stream, err := h.Runs.FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: "x"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("follow: %v", err)
	}
}

// TestPlanWithoutItsDataset: the plan is refused before any agent waits for the dataset.
func TestPlanWithoutItsDataset(t *testing.T) {
	h := start(t)
	_, err := h.Runs.SubmitRun(context.Background(), &spatev1.SubmitRunRequest{
		PlanYaml: []byte(clustertest.Plan), Secrets: map[string]string{"env:KEY": clustertest.SecretKey},
		Datasets: map[string]*spatev1.Dataset{"10:5": {Sha256: strings.Repeat("0a", 32), Size: 1}},
	})
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("%v", err)
	}
}
