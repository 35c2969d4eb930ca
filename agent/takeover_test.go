package agent

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// An agent that is told over the control stream to take over another's arrivals sends those as well, although a
// connection breaks in between. A revision that is sent twice counts once.
func TestTakeoverUnderWay(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{})
	c.next()
	e := enginetest.New(t, time.Millisecond, 0)
	a := enginetest.AssignOf(
		enginetest.StageOf(
			&spatev1.LoadPoint{Rate: 100, Arrival: "constant", Duration: durationpb.New(4 * time.Second)},
			e,
		),
		0,
		1,
		1,
	)
	c.begin(a)
	enginetest.Eventually(t, "load", func() bool { return len(e.Requests()) > 10 })
	taken := &spatev1.Stripe{Weights: []uint32{1, 1}, Handovers: []*spatev1.Handover{
		{FromRank: 1, Weights: []uint32{1}, FromNs: int64(2 * time.Second)},
	}}
	for range 2 {
		c.revise(enginetest.AtRevision(a.GetRef(), 2), taken)
		c.applied(enginetest.AtRevision(a.GetRef(), 2))
	}
	c.leave()
	c.comeBack(c.answer)
	if revision := c.next().GetHello().GetResume().GetRevision(); revision != 2 {
		t.Errorf("resumes revision %d", revision)
	}
	again := a
	again.Ref, again.Stripe = enginetest.AtRevision(a.GetRef(), 3), taken
	c.assign(again) // as after a restart of the coordinator
	c.applied(again.GetRef())
	totals := c.totals(0)
	// Half of the first two seconds' 200 arrivals, and all of the last two seconds'.
	if got := totals.GetCounters().GetCompleted(); got != 300 || totals.GetFailure() != "" ||
		totals.GetNeverSent() != 0 {
		t.Errorf("%d completed, totals %v", got, totals)
	}
}
