package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// endedRun makes a run that has ended, and returns its id.
func endedRun(t *testing.T, r *rig) string {
	t.Helper()
	id := r.stopped(t)
	if _, err := r.followAll(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	return id
}

// A run that has ended can be removed, and leaves no trace. A run that waits or is in progress cannot, and an id cannot
// be a path.
func TestRunsAreRemoved(t *testing.T) {
	r := newRig(t)
	ended := endedRun(t, r)
	running, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless), MinAgents: 1})
	if err != nil {
		t.Fatal(err)
	}
	waits, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless), MinAgents: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id   string
		want codes.Code
	}{
		{running.GetRunId(), codes.FailedPrecondition},
		{waits.GetRunId(), codes.FailedPrecondition},
		{"../" + ended, codes.InvalidArgument},
		{"", codes.InvalidArgument},
		{"none", codes.NotFound},
		{ended, codes.OK},
		{ended, codes.NotFound},
	} {
		if _, err := r.runs.RemoveRun(t.Context(), &spatev1.RemoveRunRequest{RunId: c.id}); status.Code(err) != c.want {
			t.Errorf("run %q: %v, want %v", c.id, err, c.want)
		}
	}
	if left, err := fs.Glob(os.DirFS(r.cfg.DataDir), "*"+ended+"*"); err != nil || len(left) != 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
	if err := followOnce(t, r.runs, ended); status.Code(err) != codes.NotFound {
		t.Errorf("following it: %v", err)
	}
	if got, _ := clustertest.List(t, r.runs, 0); len(got) != 2 {
		t.Errorf("runs %v", got)
	}
}

// Beyond the limits the oldest runs are removed, except runs that have not ended and runs whose points wait.
func TestRunsBeyondTheLimitsAreRemoved(t *testing.T) {
	r := newRig(t)
	var ids []string
	for range 4 {
		ids = append(ids, endedRun(t, r))
	}
	if err := os.WriteFile(filepath.Join(r.cfg.DataDir, ids[1], "influx.incomplete"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	running, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless), MinAgents: 1})
	if err != nil {
		t.Fatal(err)
	}
	r.crash()
	half := filepath.Join(r.cfg.DataDir, ".removed-half")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	r.cfg.KeepRuns = files.Limits{Count: 1} // besides the one in progress, and the one whose points may be missing
	r.start()
	want := []string{ids[1], ids[3], running.GetRunId()}
	slices.Sort(want)
	clustertest.Eventually(t, fmt.Sprintf("only the runs %v of %v are left", want, ids), func() bool {
		runs, err := r.runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, run := range runs.GetRuns() {
			got = append(got, run.GetRunId())
		}
		slices.Sort(got)
		return slices.Equal(got, want)
	})
	if _, err := os.Stat(half); err == nil {
		t.Error("what was half removed is there")
	}
}

// After a restart waiting runs still wait, except those whose keys are lost.
func TestRunsWaitOnAfterANewStart(t *testing.T) {
	r := newRig(t)
	submit := func(plan string) string {
		a, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(plan), MinAgents: 1,
			Secrets: map[string]string{"env:KEY": clustertest.SecretKey}})
		if err != nil {
			t.Fatal(err)
		}
		return a.GetRunId()
	}
	begun, keyed := submit(clustertest.Plan), submit(clustertest.Plan)
	first, second := submit(keyless), submit(keyless)
	r.crash()
	r.start()
	r.awaitRuns(second+" WAITING", first+" WAITING", begun+" RUNNING", keyed+" ENDED")
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
	got, _ := clustertest.List(t, r.runs, 2)
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
	clustertest.Eventually(t, "three runs, and what became of each", func() bool {
		got, _ := clustertest.List(t, r.runs, 0)
		slices.Sort(got)
		return slices.Equal(got, []string{"empty BROKEN", "text BROKEN", "used RUNNING"})
	})
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
	r.awaitRuns("embedded BROKEN")
	if s := r.c.Stats(); len(s.Runs) > 0 {
		t.Errorf("in progress %q", s.Runs)
	}
	ctx, cancel := context.WithTimeout(t.Context(), clustertest.Patience)
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

// Runs wait by priority and then by time, also after a restart. A list says what each waits for.
func TestPriority(t *testing.T) {
	r := newRig(t)
	submit := func(priority int32) string {
		text := strings.Replace(clustertest.PlanOn(1, "one"), "{concurrency: [1], requests: 4}", "{rate: [1], duration: 60s}", 1)
		answer, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{
			PlanYaml: []byte(text), MinAgents: 1, Priority: priority,
		})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetRunId()
	}
	first, low, high, second := submit(0), submit(-1), submit(5), submit(5)
	check := func(when string) {
		t.Helper()
		_, all := clustertest.List(t, r.runs, 0)
		var got []string
		for _, s := range all {
			got = append(got, s.GetRunId())
		}
		if want := []string{low, second, high, first}; !slices.Equal(got, want) {
			t.Fatalf("%s: runs %v, want %v", when, got, want)
		}
		for i, s := range all[:3] {
			if s.GetPlace() != uint32(3-i) ||
				!strings.HasPrefix(s.GetWaitsBecause(), "the same server is loaded by run "+s.GetWaitsFor()[0]) {
				t.Errorf("%s: %v", when, s)
			}
		}
		if s := all[2]; !slices.Equal(s.GetWaitsFor(), []string{first}) || s.GetPriority() != 5 {
			t.Errorf("%s: the next run: %v", when, s)
		}
	}
	check("at first")
	r.crash()
	r.start()
	check("after a restart")
	if _, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless),
		Priority: 101}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("priority 101: %v", err)
	}
}
