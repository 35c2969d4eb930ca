package agent

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/enginetest"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestAgentKeepsItsRateLimit(t *testing.T) {
	t.Parallel()
	c := newCoordinator(t)
	c.start(Config{MaxRate: 20})
	if got := c.next().GetHello().GetAgent().GetMaxRate(); got != 20 {
		t.Errorf("reports %v", got)
	}
	e := enginetest.New(t, 0, 0)
	fast := enginetest.AssignOf(
		enginetest.StageOf(&spatev1.LoadPoint{Rate: 50, Arrival: "poisson", Requests: 100}, e),
		0,
		1,
		1,
	)
	c.assign(fast)
	if reason := c.next().GetRejected().GetReason(); !strings.Contains(reason, "up to 25 requests per second") {
		t.Errorf("reason %q", reason)
	}
	fair := enginetest.AssignOf(
		enginetest.StageOf(&spatev1.LoadPoint{Rate: 50, Arrival: "constant", Requests: 5}, e),
		0,
		1,
		4,
	)
	c.begin(fair)
	if failure := c.totals(0).GetFailure(); failure != "" {
		t.Errorf("failure %q", failure)
	}
	busy := endless(e)
	busy.Ref.StageIndex, busy.Stage.Index = 1, 1
	c.begin(busy)
	totals := c.totals(1)
	if !strings.Contains(totals.GetFailure(), "than its limit of 20 per second") ||
		totals.GetFailureKind() != spatev1.FailureKind_FAILURE_KIND_AGENT {
		t.Errorf("totals %v", totals)
	}
}
