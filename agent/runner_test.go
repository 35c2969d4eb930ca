package agent

import (
	"log/slog"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/outbox"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A load continues while nobody takes its measurements, and is complete once they are taken.
func TestFullOutboxEndsNothing(t *testing.T) {
	r := runnerOf(t, ready.Limits{}, 100)
	answers := make(answers, 1)
	e := enginetest.New(t, time.Millisecond, 0)
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 1, Duration: durationpb.New(2500 * time.Millisecond)}, e), 0)
	r.assign(a, answers)
	if got := <-answers; got != "applied" {
		t.Fatal(got)
	}
	if err := r.arm(a.GetRef(), clock.Now(), 0); err != nil {
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

// runnerOf returns a runner in a session that was just welcomed.
func runnerOf(t *testing.T, l ready.Limits, outboxLimit int) *runner {
	r := &runner{
		resources: &ready.Resources{Limits: l, Datasets: &ready.Datasets{}, Logger: slog.New(slog.DiscardHandler)},
		outbox:    outbox.New("a", 1, outboxLimit),
		logger:    slog.New(slog.DiscardHandler),
	}
	r.setTerms(clock.Now(), time.Minute)
	t.Cleanup(func() { r.close("the test is over"); r.work.Wait() })
	return r
}

// answers stands in for a session.
type answers chan string

func (a answers) applied(*spatev1.AssignmentRef, *spatev1.Preparation) { a <- "applied" }

func (a answers) rejected(_ *spatev1.AssignmentRef, _ spatev1.FailureKind, reason string) {
	a <- reason
}
