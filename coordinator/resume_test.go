package coordinator

import (
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/coordinator/leftover"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// local makes a local coordinator whose run is in dir.
func local(t *testing.T, dir string) *Coordinator {
	t.Helper()
	c, err := New(Config{DataDir: t.TempDir(), Local: true, RunDir: dir, Version: "test", Run: leisurely,
		Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// interrupt runs the plan of two stages on a local coordinator until a moment, and leaves it like a killed command.
func interrupt(t *testing.T, dir string, until func(h *harness, a *agent)) {
	t.Helper()
	h := serve(t, local(t, dir), "")
	a := h.agent("a")
	h.submit(1)
	until(h, a)
	if err := h.c.Leave(); err != nil {
		t.Fatal(err)
	}
}

// A snapshot whose ledger is closed because the coordinator leaves is not refused: its agent keeps it for the
// coordinator that is started next.
func TestASnapshotOfARunThatIsLeftIsNotRefused(t *testing.T) {
	h := serve(t, local(t, filepath.Join(t.TempDir(), "run")), "")
	a := h.agent("a")
	h.submit(1)
	a.apply()
	a.armed()
	r := h.active()
	if err := h.c.Leave(); err != nil {
		t.Fatal(err)
	}
	if answer, err := h.c.addSnapshot(r, a.snapshot(0), true); status.Code(err) != codes.Unavailable {
		t.Errorf("answer %v, error %v", answer, err)
	}
}

// A snapshot that is sent again while its run ends is acked, although the ledger that has it is closed and still
// locked.
func TestASnapshotIsAckedAgainWhileItsRunEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	h := serve(t, local(t, dir), "")
	a := h.agent("a")
	h.submit(1)
	a.apply()
	a.armed()
	r := h.active()
	s := a.snapshot(0)
	a.acked(s)
	if err := h.c.Leave(); err != nil {
		t.Fatal(err)
	}
	locked, err := ledger.Open(h.c.storage.Ledger(r.id))
	if err != nil {
		t.Fatal(err)
	}
	r.ended = make(chan struct{})
	answered := make(chan *spatev1.PushResponse)
	go func() {
		answer, _ := h.c.addSnapshot(r, s, true) // nil after an error
		answered <- answer
	}()
	runtime.Gosched()
	if err := locked.Close(); err != nil {
		t.Fatal(err)
	}
	close(r.ended)
	if answer := <-answered; answer == nil || answer.GetRefused() != "" {
		t.Errorf("answer %v", answer)
	}
}

// finishStage plays an agent's part of a stage.
func finishStage(a *agent) {
	a.h.t.Helper()
	a.apply()
	a.armed()
	a.acked(a.last(0))
}

// A local run whose command is killed at any point is resumed with new agents. Ended stages are kept, and the stage in
// progress is measured again, without anything from its first try.
func TestResume(t *testing.T) {
	for name, tc := range map[string]struct {
		until func(h *harness, a *agent)
		kept  uint32
		again bool
		left  int
	}{
		"getting ready": {func(_ *harness, a *agent) { a.hear() }, 0, true, 2},
		"in the first stage": {func(_ *harness, a *agent) { a.apply(); a.armed(); a.acked(a.snapshot(0)) },
			0, true, 2},
		"in the second stage": {func(_ *harness,
			a *agent) {
			finishStage(a)
			a.apply()
			a.armed()
			a.acked(a.snapshot(0))
		}, 1, true, 1},
		"after it was told so": {func(h *harness, a *agent) { finishStage(a); a.apply(); a.armed(); stop(h, a) },
			1, true, 1},
		"before it had any agent": {func(*harness, *agent) {}, 0, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			interrupt(t, dir, tc.until)
			found, err := leftover.ReadInterrupted(dir)
			if err != nil {
				t.Fatal(err)
			}
			if found.Kept != tc.kept || (found.Again != nil) != tc.again && name != "before it had any agent" ||
				len(found.Left) != tc.left {
				t.Errorf("%d kept, again %v, %d left", found.Kept, found.Again, len(found.Left))
			}
			resumeToTheEnd(t, dir, tc.left)
		})
	}
}

// stop stops the run in progress and waits until its agent is told.
func stop(h *harness, a *agent) {
	h.t.Helper()
	if _, err := h.runs.StopRun(h.t.Context(), &spatev1.StopRunRequest{RunId: h.c.Stats().Run}); err != nil {
		h.t.Fatal(err)
	}
	a.stopped()
}

// resumeToTheEnd resumes a run with an agent of another process, and checks that its result is complete.
func resumeToTheEnd(t *testing.T, dir string, stages int) {
	t.Helper()
	c := local(t, dir)
	id, err := c.Resume(Resumption{MinAgents: 1, Secrets: map[string]string{"env:KEY": secretKey}})
	if err != nil {
		t.Fatal(err)
	}
	h := serve(t, c, "")
	b, err := h.dial("b", 7)
	if err != nil {
		t.Fatal(err)
	}
	for range stages {
		finishStage(b)
		if got := b.assigned.GetSecrets()["env:KEY"]; got != secretKey {
			t.Errorf("the agent has the key %q", got)
		}
	}
	if end := h.end(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	ledger := h.fetch(id)
	result, err := results.Of(ledger)
	if err != nil || !result.Run.Complete || len(result.Stages) != 2 || result.Run.Restarts != 1 {
		t.Fatalf("%+v, %v", result, err)
	}
	for _, s := range result.Stages {
		if s.Requests.Completed != 1 {
			t.Errorf("stage %d has %d requests: something of the first try is left", s.Index, s.Requests.Completed)
		}
	}
}

// Anything but an interrupted local run is refused with an error that says what to do, and is not changed.
func TestWhatCannotBeResumed(t *testing.T) {
	for want, dir := range map[string]string{
		"nothing is left to resume": func() string {
			dir := filepath.Join(t.TempDir(), "run")
			interrupt(t, dir, func(h *harness, a *agent) { finishStage(a); finishStage(a); h.end(h.c.recent[0]) })
			return dir
		}(),
		"the run belongs to a coordinator": func() string {
			h := start(t, func(c *Config) { c.Run = leisurely })
			a := h.agent("a")
			id := h.submit(1)
			a.apply()
			if err := h.c.Leave(); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(h.dataDir, id)
		}(),
		"no such file": t.TempDir(),
	} {
		if _, err := leftover.ReadInterrupted(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := local(t, dir).Resume(Resumption{MinAgents: 1}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
