package clustertest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/coordinator/clustertest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestRunsWaitInOrder(t *testing.T) {
	t.Parallel()
	h := start(t)
	var ids []string
	for i := range 3 {
		a, err := h.Runs.SubmitRun(t.Context(),
			&spatev1.SubmitRunRequest{PlanYaml: []byte(clustertest.Keyless), MinAgents: 1})
		if err != nil || a.GetWaiting() != uint32(i) {
			t.Fatalf("run %d: %v, %v", i, a, err)
		}
		ids = append(ids, a.GetRunId())
	}
	got, all := clustertest.List(t, h.Runs, 0)
	if want := fmt.Sprint([]string{ids[2] + " WAITING", ids[1] + " WAITING",
		ids[0] + " RUNNING"}); fmt.Sprint(got) != want {
		t.Errorf("runs %v, want %v", got, want)
	}
	if w := all[0]; w.GetPlan() != "sweep" || w.GetSubmitTime() == nil || w.GetBeginTime() != nil ||
		w.GetStages() != 2 {
		t.Errorf("a run that waits: %v", w)
	}
	if s := h.c.Stats(); s.Waiting != 2 || !slices.Equal(s.Runs, ids[:1]) {
		t.Errorf("%+v", s)
	}
	for id, want := range map[string]codes.Code{ids[1]: codes.OK, "none": codes.NotFound, "../" + ids[1]: codes.InvalidArgument} {
		one, err := h.Runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{RunId: id})
		if status.Code(err) != want || want == codes.OK && !proto.Equal(one.GetRuns()[0], all[1]) {
			t.Errorf("the only run %q: %v, %v", id, err, one)
		}
	}
	if code := h.FetchCode(ids[1]); code != codes.FailedPrecondition {
		t.Errorf("the ledger of a run that waits: %v", code)
	}
	a := h.Agent("a")
	for _, id := range ids {
		clustertest.RunStage(a)
		clustertest.RunStage(a)
		if end := h.End(id); !end.GetComplete() {
			t.Errorf("run %s: %v", id, end)
		}
	}
	got, all = clustertest.List(t, h.Runs, 2)
	if want := fmt.Sprint([]string{ids[2] + " ENDED", ids[1] + " ENDED"}); fmt.Sprint(got) != want {
		t.Errorf("runs %v, want %v", got, want)
	}
	if e := all[0]; !e.GetComplete() || e.GetOutcome() != spatev1.Outcome_OUTCOME_DONE || e.GetStagesEnded() != 2 ||
		e.GetEndTime() == nil || e.GetPlan() != "sweep" {
		t.Errorf("a run that has ended: %v", e)
	}
}

func TestFollowersOfARunThatWaitsAreToldItsPlace(t *testing.T) {
	h := start(t)
	first := h.Submit(1)
	second, third := h.Submit(1), h.Submit(1)
	for _, id := range []string{first, second} {
		if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id}); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := h.Runs.FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: third})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 run in the queue comes before this one", "this run is next"} {
		m, err := stream.Recv()
		if err != nil || !strings.Contains(m.GetEvent().GetNotice().GetText(), want) {
			t.Errorf("%v, %v, want %q", m, err, want)
		}
	}
	if end := h.End(second); end.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED {
		t.Errorf("end of the second: %v", end)
	}
}

func TestARunThatWaitsCanBeStopped(t *testing.T) {
	h := start(t)
	h.Submit(1)
	waiting := h.Submit(1)
	if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: waiting}); err != nil {
		t.Fatal(err)
	}
	if end := h.End(waiting); end.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED ||
		!strings.Contains(end.GetReason(), "before it began") {
		t.Errorf("end: %v", end)
	}
	rec, err := h.Fetch(waiting).Run()
	if err != nil || rec.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED || rec.GetBeginTime() != nil ||
		rec.GetEndTime() == nil {
		t.Errorf("record %v, %v", rec, err)
	}
	if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: waiting}); err != nil {
		t.Errorf("stopped again: %v", err)
	}
	if h.c.Stats().Waiting != 0 {
		t.Error("it still waits")
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	t.Parallel()
	h := start(t)
	for range 1 + 64 {
		h.SubmitPlan(1, clustertest.Keyless)
	}
	_, err := h.Runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(clustertest.Keyless)})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "64 runs are waiting") {
		t.Errorf("one more: %v", err)
	}
	if got, _ := clustertest.List(t, h.Runs, 500); len(got) != 1+64 {
		t.Errorf("%d runs", len(got))
	}
}
