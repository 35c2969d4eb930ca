package coordinator

import (
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/lifecycle"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// During the same boot a start stays as it is. After a reboot, or on another machine, it is derived from the wall
// clock.
func TestWhereAStartIsAfterANewStart(t *testing.T) {
	wall := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	now := clock.Instant(50 * time.Second)
	started := timestamppb.New(wall.Add(-8 * time.Second))
	for name, tc := range map[string]struct {
		start      int64
		boot, here string
		want       clock.Instant
	}{
		"the same boot": {int64(7 * time.Second), "x", "x", clock.Instant(7 * time.Second)},
		"another boot":  {int64(9999 * time.Second), "x", "y", now.Add(-8 * time.Second)},
		"no boot known": {int64(9999 * time.Second), "", "", now.Add(-8 * time.Second)},
		"not armed":     {0, "x", "y", 0},
	} {
		c := &Coordinator{ground: ground{boot: tc.here}}
		m := lifecycle.Memory{
			Checkpoint: &spatev1.Checkpoint{StartClockNs: tc.start, BootId: tc.boot},
			Stage:      &spatev1.StageRecord{StartTime: started},
		}
		c.placeStart(m, now, wall)
		if got := clock.Instant(m.Checkpoint.GetStartClockNs()); got != tc.want {
			t.Errorf("%s: start %v, want %v", name, time.Duration(got), time.Duration(tc.want))
		}
	}
}

// After a lost agent's part has been dropped, its new snapshots are refused with the reason, and earlier ones are
// acknowledged again.
func TestSnapshotsOfAReassignedShareAreRefused(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.Submit(1)
	a.Apply()
	a.Armed()
	before := a.Snapshot(0)
	a.Acked(before)
	r := h.c.queue.known(id)
	h.c.mu.Lock()
	m, _ := r.stages.Get(0)
	rec := cloneWithLoss(m.Record)
	r.stages.Put(rec)
	h.c.mu.Unlock()
	a.Acked(before)
	if m := a.Deliver(a.Snapshot(1)); m.GetRefused() != errDropped.Error() {
		t.Errorf("a late snapshot: %v", m)
	}
	if s := h.c.Stats(); s.Dropped != 1 || s.Refused != 0 || s.Duplicates != 1 || s.Snapshots != 1 {
		t.Errorf("%+v", s)
	}
}

// cloneWithLoss returns a copy of a record in which the first agent's part is dropped.
func cloneWithLoss(rec *spatev1.StageRecord) *spatev1.StageRecord {
	out := &spatev1.StageRecord{Stage: rec.GetStage(), StartTime: rec.GetStartTime()}
	for _, a := range rec.GetAgents() {
		out.Agents = append(out.Agents, &spatev1.AssignedAgent{Agent: a.GetAgent(), Incarnation: a.GetIncarnation(),
			Weight: a.GetWeight()})
	}
	out.Agents[0].Loss = &spatev1.Loss{FromWindow: 1, Share: 1}
	return out
}

// A silent agent's snapshot is accepted, while nothing else happens to the run.
func TestASilentAgentsSnapshotsAreTaken(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.Submit(1)
	a.Apply()
	a.Armed()
	h.c.mu.Lock()
	h.c.fleet.Session("a").Heard = clock.Now().Add(-2 * h.c.cfg.Run.Silence)
	h.c.mu.Unlock()
	a.Acked(a.Snapshot(0))
	a.Acked(a.Last(1))
	clustertest.RunStage(a)
	if end := h.End(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
}

// A ledger that cannot be written ends the run, and nothing that depended on the failed write is done.
func TestALedgerThatFailsEndsTheRun(t *testing.T) {
	h := start(t)
	a := h.Agent("a")
	id := h.Submit(1)
	m := a.Hear()
	r := h.c.queue.known(id)
	if err := r.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	a.Say(
		&spatev1.ConnectRequest{
			Message: &spatev1.ConnectRequest_Applied{
				Applied: &spatev1.Applied{Ref: m.GetAssign().GetRef(), ClockUncertaintyNs: 1000},
			},
		},
	)
	a.Stopped() // was never armed
	if end := h.End(id); end.GetOutcome() != spatev1.Outcome_OUTCOME_FAILED {
		t.Errorf("end: %v", end)
	}
}

// Two coordinators on one data directory would resume the same runs. The second is refused until the first is closed.
func TestADataDirectoryHasOneCoordinator(t *testing.T) {
	dir := t.TempDir()
	serve := func() (*Coordinator, error) {
		c, err := New(Config{Name: "c", DataDir: dir, InsecurePlaintext: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c, c.lockData()
	}
	first, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := serve(); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("the second: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	if _, err := serve(); err != nil {
		t.Errorf("after the first: %v", err)
	}
}

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
func interrupt(t *testing.T, dir string, until func(h *harness, a *clustertest.Agent)) {
	t.Helper()
	h := serve(t, local(t, dir), "")
	a := h.Agent("a")
	h.Submit(1)
	until(h, a)
	if err := h.c.end(true); err != nil {
		t.Fatal(err)
	}
}

// A snapshot whose ledger is closed because the coordinator leaves is not refused: its agent keeps it for the
// coordinator that is started next.
func TestASnapshotOfARunThatIsLeftIsNotRefused(t *testing.T) {
	h := serve(t, local(t, filepath.Join(t.TempDir(), "run")), "")
	a := h.Agent("a")
	h.Submit(1)
	a.Apply()
	a.Armed()
	r := h.active()
	if err := h.c.end(true); err != nil {
		t.Fatal(err)
	}
	if answer, err := r.add(a.Snapshot(0), true); status.Code(err) != codes.Unavailable {
		t.Errorf("answer %v, error %v", answer, err)
	}
}

// A snapshot that is sent again while its run ends is acked, although the ledger that has it is closed and still
// locked.
func TestASnapshotIsAckedAgainWhileItsRunEnds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	h := serve(t, local(t, dir), "")
	a := h.Agent("a")
	h.Submit(1)
	a.Apply()
	a.Armed()
	r := h.active()
	s := a.Snapshot(0)
	a.Acked(s)
	if err := h.c.end(true); err != nil {
		t.Fatal(err)
	}
	locked, err := ledger.Open(h.c.storage.Ledger(r.id))
	if err != nil {
		t.Fatal(err)
	}
	r.ended = make(chan struct{})
	answered := make(chan *spatev1.PushResponse)
	go func() {
		answer, _ := r.add(s, true) // nil after an error
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

// A snapshot of a run that has ended is acked again by a coordinator that has been started since. Only what the run's
// ledger does not have is refused.
func TestASnapshotIsAckedAgainAfterARestart(t *testing.T) {
	before := start(t)
	a := before.Agent("a")
	id := before.Submit(1)
	clustertest.RunStage(a)
	a.Apply()
	a.Armed()
	last := a.Last(0)
	a.Acked(last)
	before.End(id)
	if err := before.c.end(true); err != nil {
		t.Fatal(err)
	}
	after := start(t, func(c *Config) { c.DataDir = before.dataDir })
	for _, c := range []struct {
		of, run string
		window  *spatev1.Snapshot
		acked   bool
	}{
		{"a run that has ended", id, last, true},
		{"the same run, another window", id, a.Snapshot(1), false},
		{"a run that is not there", "none", last, false},
		{"a run whose id is a path", "../" + filepath.Base(before.dataDir) + "/" + id, last, false},
	} {
		s := proto.CloneOf(c.window)
		s.Key.RunId = c.run
		if m, err := after.c.receiveSnapshot(s, certs.Identity{}); err != nil || (m.GetRefused() == "") != c.acked {
			t.Errorf("%s: answer %v, %v", c.of, m, err)
		}
	}
}

// finishStage plays an agent's part of a stage.
func finishStage(a *clustertest.Agent) {
	a.Cluster.T.Helper()
	a.Apply()
	a.Armed()
	a.Acked(a.Last(0))
}

// A local run whose command is killed at any point is resumed with new agents. Ended stages are kept, and the stage in
// progress is measured again, without anything from its first try.
func TestResume(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		until func(h *harness, a *clustertest.Agent)
		kept  uint32
		left  int
	}{
		"getting ready": {func(_ *harness, a *clustertest.Agent) { a.Hear() }, 0, 2},
		"in the first stage": {func(_ *harness, a *clustertest.Agent) { a.Apply(); a.Armed(); a.Acked(a.Snapshot(0)) },
			0, 2},
		"in the second stage": {func(_ *harness,
			a *clustertest.Agent) {
			finishStage(a)
			a.Apply()
			a.Armed()
			a.Acked(a.Snapshot(0))
		}, 1, 1},
		"after it was told so": {func(h *harness, a *clustertest.Agent) { finishStage(a); a.Apply(); a.Armed(); stop(h, a) },
			1, 1},
		"before it had any agent": {func(*harness, *clustertest.Agent) {}, 0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "run")
			interrupt(t, dir, tc.until)
			found, err := ReadInterrupted(dir)
			if err != nil {
				t.Fatal(err)
			}
			if found.Kept != tc.kept || len(found.Left) != tc.left {
				t.Errorf("%d kept, %d left", found.Kept, len(found.Left))
			}
			resumeToTheEnd(t, dir, tc.left)
		})
	}
}

// stop stops the run in progress and waits until its agent is told.
func stop(h *harness, a *clustertest.Agent) {
	h.T.Helper()
	if _, err := h.Runs.StopRun(h.T.Context(), &spatev1.StopRunRequest{RunId: h.c.Stats().Runs[0]}); err != nil {
		h.T.Fatal(err)
	}
	a.Stopped()
}

// resumeToTheEnd resumes a run with an agent of another process, and checks that its result is complete.
func resumeToTheEnd(t *testing.T, dir string, stages int) {
	t.Helper()
	c := local(t, dir)
	id, err := c.Resume(Resumption{MinAgents: 1, Secrets: map[string]string{"env:KEY": clustertest.SecretKey}})
	if err != nil {
		t.Fatal(err)
	}
	h := serve(t, c, "")
	b, err := h.Dial("b", 7)
	if err != nil {
		t.Fatal(err)
	}
	for range stages {
		finishStage(b)
		if got := b.Assigned.GetSecrets()["env:KEY"]; got != clustertest.SecretKey {
			t.Errorf("the agent has the key %q", got)
		}
	}
	if end := h.End(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
	ledger := h.Fetch(id)
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
		"the run has ended, and only a run that was killed can continue: run its plan.yaml again": func() string {
			dir := filepath.Join(t.TempDir(), "run")
			interrupt(t, dir, func(h *harness, a *clustertest.Agent) {
				finishStage(a)
				finishStage(a)
				h.End(h.c.queue.recent[0])
			})
			return dir
		}(),
		"the run belongs to a coordinator": func() string {
			h := start(t, func(c *Config) { c.Run = leisurely })
			a := h.Agent("a")
			id := h.Submit(1)
			a.Apply()
			if err := h.c.end(true); err != nil {
				t.Fatal(err)
			}
			return filepath.Join(h.dataDir, id)
		}(),
		"no such file": t.TempDir(),
	} {
		if _, err := ReadInterrupted(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
		if _, err := local(t, dir).Resume(Resumption{MinAgents: 1}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
