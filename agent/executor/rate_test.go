package executor

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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
