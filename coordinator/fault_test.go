package coordinator

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/aggregate/sink"
	"github.com/spate-load/spate/certs"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/coordinator/clustertest"
	"github.com/spate-load/spate/coordinator/lifecycle"
	"github.com/spate-load/spate/coordinator/storage"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// faulty is a disk on which snapshots cause a panic.
type faulty struct{ storage.Disk }

func (faulty) Append([]*spatev1.Snapshot) ([]bool, error) { panic("a bug") }

// A panic ends only its own run, with a reason that says so, and the next run begins.
func TestAFaultEndsItsRunOnly(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, h *harness, a *clustertest.Agent, r *run){
		"at work for the run": func(_ *testing.T, h *harness, _ *clustertest.Agent, r *run) {
			r.guarded(func() { panic("a bug") })
		},
		"where its snapshots are merged": func(t *testing.T, h *harness, a *clustertest.Agent, r *run) {
			h.c.mu.Lock()
			r.disk = storage.Watch(faulty{h.c.diskOf(r.ledger)}, clock.Now)
			h.c.mu.Unlock()
			if _, err := h.c.receiveSnapshot(a.Snapshot(0), certs.Identity{}); status.Code(err) != codes.Internal {
				t.Errorf("the agent is told %v", err)
			}
		},
		"in its machine": func(_ *testing.T, h *harness, _ *clustertest.Agent, r *run) {
			h.c.mu.Lock()
			defer h.c.mu.Unlock()
			r.feed(func(*lifecycle.Run, clock.Instant) { panic("a bug") })
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, a, r, next := faultRig(t)
			spoil(t, h, a, r)
			if end := h.End(r.id); end.GetOutcome() != spatev1.Outcome_OUTCOME_FAILED ||
				!strings.Contains(end.GetReason(), "internal fault of the coordinator: a bug") {
				t.Errorf("ended with %v", end)
			}
			h.nextIs(next)
		})
	}
}

// The next run begins even if the end of the faulty one cannot be determined, because its machine is gone.
func TestAFaultyMachineIsReleased(t *testing.T) {
	t.Parallel()
	h, _, r, next := faultRig(t)
	h.c.mu.Lock()
	r.machine = nil // so that the next tick panics
	h.c.mu.Unlock()
	<-r.ended
	h.nextIs(next)
}

// faultySink panics in one of its methods.
type faultySink struct{ put, close bool }

func (s faultySink) Put(sink.Point) {
	if s.put {
		panic("a bug")
	}
}

func (s faultySink) Close(context.Context) error {
	if s.close {
		panic("a bug")
	}
	return nil
}

// A sink that panics in any of its methods ends its own run at most, and the next run begins.
func TestAFaultySinkEndsItsRunOnly(t *testing.T) {
	for name, open := range map[string]func() sink.Sink{
		"when it is opened":       func() sink.Sink { panic("a bug") },
		"when it is given points": func() sink.Sink { return faultySink{put: true} },
		"when it is closed":       func() sink.Sink { return faultySink{close: true} },
	} {
		t.Run(name, func(t *testing.T) {
			opened := false
			h := start(t, func(c *Config) {
				c.OpenSink = func(string) (sink.Sink, error) {
					if opened {
						return sink.Discard, nil
					}
					opened = true
					return open(), nil
				}
			})
			a := h.Agent("a")
			first := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
			next := h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
			if _, err := h.Runs.StopRun(t.Context(), &spatev1.StopRunRequest{RunId: first}); err != nil {
				t.Fatal(err)
			}
			h.End(first)
			for a.Hear().GetAssign().GetRef().GetRunId() != next { // until the next run begins
			}
			clustertest.Eventually(t, "a fault is counted", func() bool { return h.c.faults.Load() > 0 })
		})
	}
}

// stuckEnd is a disk on which everything that is written causes a panic, also the run's end.
type stuckEnd struct{ storage.Disk }

func (stuckEnd) Put(ledger.Change) error { panic("a bug") }

// A run whose end cannot be written because that panics is released, and the next run begins.
func TestAFaultInEachWriteReleasesTheRun(t *testing.T) {
	h, _, r, next := faultRig(t)
	h.c.mu.Lock()
	r.disk = storage.Watch(stuckEnd{h.c.diskOf(r.ledger)}, clock.Now)
	h.c.queue.active[0].abort("no more")
	h.c.mu.Unlock()
	<-r.ended
	h.nextIs(next)
}

// A panic in a call fails this call only.
func TestAFaultInACallFailsTheCall(t *testing.T) {
	h := start(t)
	if _, err := h.Runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{}); err != nil { // it has begun to serve
		t.Fatal(err)
	}
	h.c.workers.Wait() // what catches up with ended runs reads the storage, too
	whole := h.c.storage
	h.c.storage = nil
	_, err := h.Runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{})
	if status.Code(err) != codes.Internal || !strings.Contains(err.Error(), "internal fault of the coordinator") {
		t.Errorf("a single call: %v", err)
	}
	stream, err := h.Runs.FetchLedger(t.Context(), &spatev1.FetchLedgerRequest{RunId: "x"})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Internal {
		t.Errorf("a stream: %v", err)
	}
	h.c.storage = whole
	if _, err := h.Runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{}); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if got := h.c.faults.Load(); got != 2 {
		t.Errorf("%d faults", got)
	}
}

// faultRig starts a run with an agent that is armed, and submits another run.
func faultRig(t *testing.T) (h *harness, a *clustertest.Agent, r *run, next string) {
	h = start(t)
	a = h.Agent("a")
	h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
	next = h.SubmitPlan(1, clustertest.PlanOf(`{concurrency: [1], requests: 4}`))
	a.Apply()
	a.Armed()
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	return h, a, h.c.queue.active[0], next
}

// nextIs checks that the run is in progress after a fault.
func (h *harness) nextIs(id string) {
	h.c.mu.Lock()
	defer h.c.mu.Unlock()
	if len(h.c.queue.active) != 1 || h.c.queue.active[0].id != id {
		h.T.Error("the next run does not begin")
	}
	if h.c.faults.Load() == 0 {
		h.T.Error("no fault was counted")
	}
}

// A run that panics when a restarted coordinator reads it is left as it is, and the others continue.
func TestAFaultAtARestartSparesTheOthers(t *testing.T) {
	r := newRig(t)
	var ids []string
	for range 2 {
		a, err := r.runs.SubmitRun(t.Context(), &spatev1.SubmitRunRequest{PlanYaml: []byte(keyless), MinAgents: 1})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, a.GetRunId())
	}
	r.crash()
	r.cfg.OpenSink = func(dir string) (sink.Sink, error) {
		if strings.HasSuffix(dir, ids[0]) {
			panic("a bug")
		}
		return sink.Discard, nil
	}
	r.start()
	r.awaitRuns(ids[1]+" RUNNING", ids[0]+" BROKEN")
	if r.c.faults.Load() != 1 {
		t.Errorf("%d faults", r.c.faults.Load())
	}
}

// A coordinator that serves other runs survives a ledger with a page that points at itself, which used to end the
// process. It reports that the run is damaged, and continues to serve.
func TestDamagedLedgersEndNoCoordinator(t *testing.T) {
	r := newRig(t)
	id := r.stopped(t)
	if _, err := r.followAll(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(r.cfg.DataDir, id, ledger.File)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	told, page := 0, os.Getpagesize()
	for at := 2 * page; at < len(whole); at += page {
		r.crash()
		if err := os.WriteFile(path, pointingAtItself(whole, at/page, page), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start()
		err := followOnce(t, r.runs, id)
		list, listErr := r.runs.ListRuns(t.Context(), &spatev1.ListRunsRequest{})
		if listErr != nil || len(list.GetRuns()) != 1 {
			t.Fatalf("page %d: runs %v, error %v", at/page, list, listErr)
		}
		if err != nil {
			told++
			if run := list.GetRuns()[0]; status.Code(err) != codes.FailedPrecondition ||
				!strings.Contains(err.Error(), "damaged") ||
				run.GetState() != spatev1.RunState_RUN_STATE_BROKEN || !strings.Contains(run.GetReason(), "damaged") {
				t.Errorf("page %d: error %v, listed as %v", at/page, err, run)
			}
		}
	}
	if told == 0 {
		t.Error("no page was one that matters")
	}
}

// followOnce reads a run's events until the stream ends, and returns the stream's error. A call over the connection to
// a killed coordinator is retried.
func followOnce(t *testing.T, runs spatev1.RunServiceClient, id string) error {
	t.Helper()
	for {
		stream, err := runs.FollowRun(t.Context(), &spatev1.FollowRunRequest{RunId: id})
		for err == nil {
			_, err = stream.Recv()
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if status.Code(err) != codes.Unavailable {
			return err
		}
	}
}

// pointingAtItself returns a ledger with a page that has one element: itself.
func pointingAtItself(whole []byte, page, size int) []byte {
	data := append([]byte(nil), whole...)
	head, native := data[page*size:], binary.NativeEndian
	native.PutUint64(head, uint64(page))
	native.PutUint16(head[8:], 1)  // a branch page
	native.PutUint16(head[10:], 1) // of one element
	native.PutUint32(head[12:], 0)
	native.PutUint32(head[16:], 16) // its key follows it
	native.PutUint32(head[20:], 4)
	native.PutUint64(head[24:], uint64(page))
	return data
}
