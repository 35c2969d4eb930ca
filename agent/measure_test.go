package agent

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestAppliedSaysWhatWasFoundAndMeasureMayComeAtAnyTime(t *testing.T) {
	t.Parallel()
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
	measuring := func(asked time.Duration) *spatev1.Measuring {
		m := c.next().GetMeasuring()
		if m.GetAskedNs() != asked.Nanoseconds() || !proto.Equal(m.GetRef(), a.GetRef()) {
			t.Fatalf("asked for %v: %v", asked, m)
		}
		return m
	}
	measure(&spatev1.AssignmentRef{RunId: "run", StageIndex: 7, Revision: 1}, 0)
	measure(a.GetRef(), 50*time.Millisecond)
	if m := measuring(50 * time.Millisecond); m.GetFromNs() != (50 * time.Millisecond).Nanoseconds() {
		t.Errorf("before the start: %v", m)
	}
	c.arm(a.GetRef())
	totals := c.totals(0)
	if n := totals.GetCounters(); n.GetCompleted() != 10 || n.GetUnmeasuredEnded() == 0 ||
		totals.GetFirstStartNs() < (50*time.Millisecond).Nanoseconds() {
		t.Errorf("totals %v", totals)
	}
}

// An agent says that it cannot measure from an instant on: a request has started since then, the coordinator's message
// was on its way for too long, or it has begun to measure from another one.
func TestMeasureThatComesTooLateIsRefused(t *testing.T) {
	for name, load := range map[string]*spatev1.LoadPoint{
		"closed": {Concurrency: 2, Duration: durationpb.New(time.Hour)},
		"open":   {Rate: 1000, Arrival: "constant", Duration: durationpb.New(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			e := enginetest.New(t, time.Millisecond, 0)
			c := newCoordinator(t)
			c.start(Config{})
			c.next()
			load.WarmupUntilSteady = durationpb.New(time.Minute)
			a := enginetest.AssignOf(enginetest.StageOf(load, e), 0)
			c.begin(a)
			enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 10 })
			ask := func(from time.Duration, by *int64) *int64 {
				c.send(&spatev1.ConnectResponse{Message: &spatev1.ConnectResponse_Measure{Measure: &spatev1.Measure{
					Ref: a.GetRef(), FromNs: from.Nanoseconds(), AnswerByNs: by,
				}}})
				return c.next().GetMeasuring().FromNs
			}
			if at := ask(1, nil); at != nil {
				t.Errorf("it measures from %v on, and requests have started since", time.Duration(*at))
			}
			if at := ask(time.Minute, new(int64)); at != nil {
				t.Errorf("it measures from %v on, and heard of that too late", time.Duration(*at))
			}
			for _, from := range []time.Duration{time.Minute, 50 * time.Second} {
				if at := ask(from, nil); at == nil || *at != from.Nanoseconds() {
					t.Errorf("asked for %v: %v", from, at)
				}
			}
			if at := ask(time.Minute, new(int64)); at != nil {
				t.Errorf("it measures from %v on, and heard of that too late", time.Duration(*at))
			}
			if at := ask(1, nil); at == nil || *at != time.Minute.Nanoseconds() {
				t.Errorf("asked for what has passed: %v, instead of what was kept", at)
			}
			c.stop(a.GetRef())
			c.totals(0)
		})
	}
}
