package supervisor

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/store"
)

// A load continues while its measurements are not taken, and is complete once they are taken.
func TestFullOutboxEndsNothing(t *testing.T) {
	r := supervisorOf(t, ready.Limits{}, 100)
	said := make(said, 1)
	e := enginetest.New(t, time.Millisecond, 0)
	a := enginetest.AssignOf(
		enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(2500 * time.Millisecond)}, e),
		0,
	)
	r.Assign(a, said)
	if got := <-said; got != "applied" {
		t.Fatal(got)
	}
	if err := r.Arm(&spatev1.Arm{Ref: a.GetRef()}, clock.Now(), 0); err != nil {
		t.Fatal(err)
	}
	r.work.Wait()
	if r.outbox.Waiting() != 1 {
		t.Fatalf("%d snapshots", r.outbox.Waiting())
	}
	s, err := r.outbox.Next(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	totals := s.GetTotals()
	if totals.GetFailure() != "" || totals.GetSnapshots() != 1 || s.GetFirstWindow() != 0 || s.FirstWindow == nil ||
		s.GetWindow() < 2 ||
		s.GetDroppedRecords() != totals.GetCounters().GetStarted() {
		t.Errorf("windows %d to %d, %d rows dropped, totals %v", s.GetFirstWindow(), s.GetWindow(),
			s.GetDroppedRecords(), totals)
	}
}

// An agent of which another one asks the target waits for what that one finds, and does the same.
func TestSharedFindings(t *testing.T) {
	r, said := supervisorOf(t, ready.Limits{}, 1<<20), make(said, 1)
	e := enginetest.New(t, time.Millisecond, 0)
	e.KeepBodies = true
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 2}, e), 0)
	a.AwaitsFound = true
	r.Assign(a, said)
	r.Assign(a, said) // said again, it is not ready
	found := &spatev1.Found{Preparation: &spatev1.Preparation{Lengths: "words", ExactOutput: true}}
	r.Share(&spatev1.Share{Ref: enginetest.AtRevision(a.GetRef(), 1), Found: found})
	r.Share(&spatev1.Share{Ref: a.GetRef(), Found: found}) // said again
	if got := <-said; got != "applied" {
		t.Fatal(got)
	}
	if err := r.Arm(&spatev1.Arm{Ref: a.GetRef()}, clock.Now(), 0); err != nil {
		t.Fatal(err)
	}
	r.work.Wait()
	if all := e.Bodies(); len(all) != 2 || !strings.Contains(all[0], `"ignore_eos":true`) {
		t.Errorf("bodies %q", all)
	}
}

// What is found out while an assignment waits for the one before it to end is not lost.
func TestFindingsForALaterAssignment(t *testing.T) {
	r := supervisorOf(t, ready.Limits{}, 100)
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Requests: 2}), 0)
	r.next = &pendingAssign{a, make(said, 1)}
	found := &spatev1.Found{Preparation: &spatev1.Preparation{Lengths: "words"}}
	r.Share(&spatev1.Share{Ref: a.GetRef(), Found: found})
	if a.GetFound() != found {
		t.Error("it waits on")
	}
}

// supervisorOf returns a supervisor in a session that was just welcomed.
func supervisorOf(t *testing.T, l ready.Limits, outboxLimit int) *Supervisor {
	r := New(&ready.Resources{Limits: l, Datasets: &store.Fetcher{}, Logger: slog.New(slog.DiscardHandler)},
		outbox.New("a", 1, outboxLimit), nil)
	r.SetTerms(clock.Now(), time.Minute)
	t.Cleanup(func() { r.Close("the test is over"); r.work.Wait() })
	return r
}

// said stands in for a session.
type said chan string

func (a said) Applied(*spatev1.Applied) { a <- "applied" }

func (a said) Measuring(*spatev1.Measuring) {}

func (a said) Waiting(_ *spatev1.AssignmentRef, text string) { a <- text }

func (a said) Rejected(_ *spatev1.AssignmentRef, _ spatev1.FailureKind, reason string) {
	a <- reason
}
