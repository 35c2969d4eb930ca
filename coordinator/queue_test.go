package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/aggregate/ledger"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// keyless is a plan without secrets.
var keyless = strings.Replace(plan, "    api_key: env:KEY\n", "", 1)

// list lists the runs, also in short: "id state" each.
func list(t *testing.T, runs spatev1.RunServiceClient, limit uint32) (out []string, all []*spatev1.RunSummary) {
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

func TestRunsWaitInOrder(t *testing.T) {
	h := start(t)
	var ids []string
	for i := range 3 {
		a, err := h.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless), MinAgents: 1})
		if err != nil || a.GetWaiting() != uint32(i) {
			t.Fatalf("run %d: %v, %v", i, a, err)
		}
		ids = append(ids, a.GetRunId())
	}
	got, all := list(t, h.runs, 0)
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
		one, err := h.runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{RunId: id})
		if status.Code(err) != want || want == codes.OK && !proto.Equal(one.GetRuns()[0], all[1]) {
			t.Errorf("the only run %q: %v, %v", id, err, one)
		}
	}
	if code := h.fetchCode(ids[1]); code != codes.FailedPrecondition {
		t.Errorf("the ledger of a run that waits: %v", code)
	}
	a := h.agent("a")
	for _, id := range ids {
		runStage(a)
		runStage(a)
		if end := h.end(id); !end.GetComplete() {
			t.Errorf("run %s: %v", id, end)
		}
	}
	got, all = list(t, h.runs, 2)
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
	first := h.submit(1)
	second, third := h.submit(1), h.submit(1)
	for _, id := range []string{first, second} {
		if _, err := h.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id}); err != nil {
			t.Fatal(err)
		}
	}
	stream, err := h.runs.FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: third})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"1 run in the queue comes before this one", "this run is next"} {
		m, err := stream.Recv()
		if err != nil || !strings.Contains(m.GetEvent().GetNotice().GetText(), want) {
			t.Errorf("%v, %v, want %q", m, err, want)
		}
	}
	if end := h.end(second); end.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED {
		t.Errorf("end of the second: %v", end)
	}
}

func TestARunThatWaitsCanBeStopped(t *testing.T) {
	h := start(t)
	h.submit(1)
	waiting := h.submit(1)
	if _, err := h.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: waiting}); err != nil {
		t.Fatal(err)
	}
	if end := h.end(waiting); end.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED ||
		!strings.Contains(end.GetReason(), "before it began") {
		t.Errorf("end: %v", end)
	}
	rec, err := h.fetch(waiting).Run()
	if err != nil || rec.GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED || rec.GetBeginTime() != nil ||
		rec.GetEndTime() == nil {
		t.Errorf("record %v, %v", rec, err)
	}
	if _, err := h.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: waiting}); err != nil {
		t.Errorf("stopped again: %v", err)
	}
	if h.c.Stats().Waiting != 0 {
		t.Error("it still waits")
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	h := start(t)
	for range 1 + 64 {
		h.submitPlan(1, keyless)
	}
	_, err := h.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless)})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "64 runs are waiting") {
		t.Errorf("one more: %v", err)
	}
	if got, _ := list(t, h.runs, 500); len(got) != 1+64 {
		t.Errorf("%d runs", len(got))
	}
}

// After a restart waiting runs still wait, except those whose keys are lost.
func TestRunsWaitOnAfterANewStart(t *testing.T) {
	r := newRig(t)
	submit := func(plan string) string {
		a, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(plan), MinAgents: 1,
			Secrets: map[string]string{"env:KEY": secretKey}})
		if err != nil {
			t.Fatal(err)
		}
		return a.GetRunId()
	}
	begun, keyed, first, second := submit(plan), submit(plan), submit(keyless), submit(keyless)
	r.crash()
	r.start()
	got, _ := list(t, r.runs, 0)
	if want := fmt.Sprint([]string{second + " WAITING", first + " WAITING", begun + " RUNNING",
		keyed + " ENDED"}); fmt.Sprint(got) != want {
		t.Errorf("runs %v, want %v", got, want)
	}
	events, err := r.followAll(t.Context(), keyed)
	if err != nil {
		t.Fatal(err)
	}
	if end := events[len(events)-1].GetRunEnded(); end.GetOutcome() != spatev1.Outcome_OUTCOME_FAILED ||
		!strings.Contains(end.GetReason(), "env:KEY") ||
		!strings.Contains(end.GetReason(), "submit the run again") {
		t.Errorf("the run whose key is gone: %v", end)
	}
	if s := r.c.Stats(); s.Restarts != 1 || s.Waiting != 2 {
		t.Errorf("%+v", s)
	}
	if _, err := r.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: begun}); err != nil {
		t.Fatal(err)
	}
	got, _ = list(t, r.runs, 2)
	if want := fmt.Sprint([]string{second + " WAITING", first + " RUNNING"}); fmt.Sprint(got) != want {
		t.Errorf("runs %v, want %v", got, want)
	}
}

// Damaged runs and other files in the data directory do not stop the coordinator.
func TestForeignAndDamagedFilesAreNoObstacle(t *testing.T) {
	r := newRig(t)
	r.crash()
	dir := r.cfg.DataDir
	for name, data := range map[string]string{
		"notes.txt": "x", "empty/ledger.db": "", "text/ledger.db": strings.Repeat("no ledger\n", 9999),
		"no-ledger/results.json": "{}", ".hidden/ledger.db": "x",
		"a name/ledger.db": "x",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "directory", ledger.File), 0o755); err != nil {
		t.Fatal(err)
	}
	used := inUse(t, dir)
	defer used.Close()
	r.start()
	got, _ := list(t, r.runs, 0)
	for _, want := range []string{"empty BROKEN", "text BROKEN", "used RUNNING"} {
		if !strings.Contains(fmt.Sprint(got), want) {
			t.Errorf("runs %v, want %s", got, want)
		}
	}
	if len(got) != 3 {
		t.Errorf("runs %v", got)
	}
	if _, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless)}); err != nil {
		t.Error(err)
	}
}

// inUse returns a ledger that another process has open.
func inUse(t *testing.T, dir string) *ledger.Ledger {
	t.Helper()
	path := filepath.Join(dir, "used", ledger.File)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := ledger.Create(path, ledger.Change{Run: &spatev1.RunRecord{RunId: "used"}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// stopped submits a run and stops it while it waits for agents. It returns the run's id.
func (r *rig) stopped(t *testing.T) string {
	t.Helper()
	a, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless), MinAgents: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: a.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	return a.GetRunId()
}

// A run that has ended can be followed from its ledger, from any event on.
func TestEndedRunsAreFollowedFromTheirLedgers(t *testing.T) {
	r := newRig(t)
	id := r.stopped(t)
	r.crash()
	r.start()
	events, err := r.followAll(t.Context(), id)
	if err != nil || events[len(events)-1].GetRunEnded().GetOutcome() != spatev1.Outcome_OUTCOME_STOPPED {
		t.Errorf("events %v, %v", events, err)
	}
	stream, err := r.runs.FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: id, After: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("behind the end: %v, %v", m, err)
	}
	if _, err := r.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: id}); err != nil {
		t.Errorf("stopping it: %v", err)
	}
}

// No coordinator resumes an interrupted local run by itself: neither another local one nor one that serves the same
// data directory.
func TestAnInterruptedLocalRunIsLeftAlone(t *testing.T) {
	r := newRig(t)
	r.crash()
	data := r.cfg.DataDir
	r.cfg.Local, r.cfg.RunDir = true, filepath.Join(data, "embedded")
	r.start()
	if _, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless),
		MinAgents: 1}); err != nil {
		t.Fatal(err)
	}
	for _, local := range []bool{true, false} {
		r.crash()
		r.cfg.Local, r.cfg.RunDir = local, ""
		r.start()
		_, err := r.runs.ListAgents(t.Context(), &spatev1.ListAgentsRequest{})
		if err != nil || len(r.c.Stats().Runs) > 0 {
			t.Errorf("local %v: in progress %q, error %v", local, r.c.Stats().Runs, err)
		}
	}
	got, _ := list(t, r.runs, 0)
	if fmt.Sprint(got) != "[embedded BROKEN]" || len(r.c.Stats().Runs) > 0 {
		t.Errorf("runs %v, in progress %q", got, r.c.Stats().Runs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := r.runs.FollowRun(ctx, &spatev1.FollowRunRequest{RunId: "embedded"})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition || !strings.Contains(err.Error(), "was interrupted") {
		t.Errorf("following it: %v", err)
	}
}
