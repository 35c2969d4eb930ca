package agent

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestRateBeyondTheAgentsLimit(t *testing.T) {
	stripe := &spatev1.Stripe{Weights: []uint32{1, 1}}
	if err := (ready.Limits{MaxRate: 50}).CheckRate(100, stripe); err != nil {
		t.Error(err)
	}
	if err := (ready.Limits{}).CheckRate(1e9, stripe); err != nil {
		t.Error(err)
	}
	err := (ready.Limits{MaxRate: 50}).CheckRate(101, stripe)
	if err == nil || !strings.HasPrefix(err.Error(),
		"the stripe has up to 50.5 requests per second (101 over all agents), this agent's limit is 50:") {
		t.Error(err)
	}
}

func TestAgentKeepsItsRateLimit(t *testing.T) {
	c := newCoordinator(t)
	c.start(Config{MaxRate: 20})
	if got := c.next().GetHello().GetAgent().GetMaxRate(); got != 20 {
		t.Errorf("tells of %v", got)
	}
	e := enginetest.New(t, 0, 0)
	fast := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Rate: 50, Arrival: "poisson", Requests: 100}, e), 0, 1, 1)
	c.assign(fast)
	if reason := c.next().GetRejected().GetReason(); !strings.Contains(reason, "up to 25 requests per second") {
		t.Errorf("reason %q", reason)
	}
	fair := enginetest.AssignOf(enginetest.StageOf(&spatev1.LoadPoint{Rate: 50, Arrival: "constant", Requests: 5}, e), 0, 1, 4)
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

// The load must end at the first request that is one too many in its second, and only one reason is returned.
func TestRateCheckAgainstCounting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]float64{0, 0.5, 1, 3, 3.5}).Draw(t, "most")
		p := rateCheck{max: most}
		var at time.Duration
		count := map[time.Duration]int{}
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			at += time.Duration(rapid.IntRange(0, 900).Draw(t, "later")) * time.Millisecond
			second := at / time.Second
			count[second]++
			want := most > 0 && count[second] == int(most)+1
			if got := p.countStart(at); (got != "") != want {
				t.Fatalf("request %d of second %d: %q", count[second], second, got)
			}
		}
	})
}

func TestRateCheckOfStragglers(t *testing.T) {
	p := rateCheck{max: 2}
	for i, at := range []time.Duration{5 * time.Second, 4 * time.Second, -time.Second} {
		if why := p.countStart(at); (why != "") != (i == 2) {
			t.Errorf("request %d: %q", i, why)
		}
	}
}

func BenchmarkRateCheck(b *testing.B) {
	p := rateCheck{max: 1e9}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			p.countStart(time.Second)
		}
	})
}
