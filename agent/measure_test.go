package agent

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestAppliedSaysWhatWasFoundAndMeasureMayComeAtAnyTime(t *testing.T) {
	e := enginetest.New(t, time.Millisecond, 0)
	e.MaxModelTokens = 100
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	a := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 2, Requests: 10,
		WarmupUntilSteady: durationpb.New(time.Minute)}, e), 0)
	measure := func(ref *spatev1.AssignmentRef, from time.Duration) {
		c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Measure{Measure: &spatev1.Measure{Ref: ref,
			FromNs: from.Nanoseconds()}}})
	}
	c.assign(a)
	if got := c.next().GetApplied().GetPreparation(); got.GetMaxModelTokens() != 100 ||
		got.GetLengths() != "token_ids" {
		t.Errorf("preparation %v", got)
	}
	measure(&spatev1.AssignmentRef{RunId: "run", StageIndex: 7, Revision: 1}, 0)
	measure(a.GetRef(), 50*time.Millisecond)
	c.arm(a.GetRef())
	totals := c.totals(0)
	if n := totals.GetCounters(); n.GetCompleted() != 10 || n.GetUnmeasuredEnded() == 0 ||
		totals.GetFirstStartNs() < (50*time.Millisecond).Nanoseconds() {
		t.Errorf("totals %v", totals)
	}
}
