package coordinator

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/internal/retention"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// endedRun makes a run that has ended, and returns its id.
func endedRun(t *testing.T, r *rig) string {
	t.Helper()
	a, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless), MinAgents: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: a.GetRunId()}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.followAll(t.Context(), a.GetRunId()); err != nil {
		t.Fatal(err)
	}
	return a.GetRunId()
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
	if got, _ := list(t, r.runs, 0); len(got) != 2 {
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
	r.cfg.KeepRuns = retention.Limits{Count: 3}
	r.start()
	runs, err := r.runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, run := range runs.GetRuns() {
		got = append(got, run.GetRunId())
	}
	want := []string{ids[1], ids[3], running.GetRunId()}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("runs %v, want %v of %v", got, want, ids)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what was half removed is there")
	}
}
