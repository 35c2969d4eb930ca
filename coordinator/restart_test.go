package coordinator

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/clock"
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
		c := &Coordinator{boot: tc.here}
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
func TestSnapshotsOfAGivenUpShareAreRefused(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submit(1)
	a.apply()
	a.armed()
	before := a.snapshot(0)
	a.acked(before)
	r := h.c.known(id)
	h.c.mu.Lock()
	m, _ := r.stages.Get(0)
	rec := cloneWithLoss(m.Record)
	r.stages.Put(rec)
	h.c.mu.Unlock()
	a.acked(before)
	if m := a.deliver(a.snapshot(1)); m.GetRefused() != errDropped.Error() {
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
	a := h.agent("a")
	id := h.submit(1)
	a.apply()
	a.armed()
	h.c.mu.Lock()
	h.c.sessions["a"].heard = clock.Now().Add(-2 * h.c.cfg.Run.Silence)
	h.c.mu.Unlock()
	a.acked(a.snapshot(0))
	a.acked(a.last(1))
	runStage(a)
	if end := h.end(id); !end.GetComplete() {
		t.Errorf("end: %v", end)
	}
}

// A ledger that cannot be written ends the run, and nothing that depended on the failed write is done.
func TestALedgerThatFailsEndsTheRun(t *testing.T) {
	h := start(t)
	a := h.agent("a")
	id := h.submit(1)
	m := a.hear()
	r := h.c.known(id)
	if err := r.ledger.Close(); err != nil {
		t.Fatal(err)
	}
	a.say(
		&spatev1.ConnectRequest{
			Message: &spatev1.ConnectRequest_Applied{
				Applied: &spatev1.Applied{Ref: m.GetAssign().GetRef(), ClockUncertaintyNs: 1000},
			},
		},
	)
	a.stopped() // was never armed
	if end := h.end(id); end.GetOutcome() != spatev1.Outcome_OUTCOME_FAILED {
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
