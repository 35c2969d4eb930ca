package executor

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/agent/ready"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// connecting is a client that records where and when connections were opened in advance. Opening one takes a while.
type connecting struct {
	client
	takes time.Duration
	mu    sync.Mutex
	at    []clock.Instant
	to    map[int]int // endpoint: connections
}

func (c *connecting) Preconnect(ctx context.Context, endpoint int) error {
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
		return ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = append(c.at, clock.Now())
	c.to[endpoint]++
	return nil
}

// loadConnecting runs a closed loop that starts in a second.
func loadConnecting(
	t *testing.T, stage *spatev1.Stage, takes time.Duration,
) (c *connecting, start clock.Instant, o outcome) {
	t.Helper()
	s := prepare(t, enginetest.AssignOf(stage, 0), resourcesOf(ready.Limits{}))
	c = &connecting{takes: takes, to: map[int]int{}}
	start = clock.Now().Add(time.Second)
	u := startWith(t, s, Config{Start: start}, func(l *Load) { l.client, c.client = c, l.client })
	return c, start, u.Wait(t)
}

// TestConnectionsBeforeTheStart: all slots that start together find their connections open, where their requests go,
// and send no request before the start.
func TestConnectionsBeforeTheStart(t *testing.T) {
	const slots = 40
	for _, kind := range []string{"", "random", leastOutstanding} {
		t.Run("balance "+kind, virtual(func(t *testing.T) {
			stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: slots, Requests: slots},
				newEngine(t, 50*ms, 0), newEngine(t, 50*ms, 0))
			stage.Target.Balance = kind
			c, start, o := loadConnecting(t, stage, 10*ms)
			sent := map[int]int{}
			for _, row := range o.rows {
				sent[int(row.GetEndpoint())]++
				if row.GetStartNs() != 0 {
					t.Errorf("request %d started at %d ns", row.GetIndex(), row.GetStartNs())
				}
			}
			if len(c.at) != slots || c.to[0] != sent[0] || c.to[1] != sent[1] {
				t.Errorf("connections %v, requests %v", c.to, sent)
			}
			for _, at := range c.at {
				if at >= start {
					t.Errorf("a connection was opened %v after the start", at.Sub(start))
				}
			}
		}))
	}
}

// TestNoConnectionsBeforeTheStart: slots that start later open their own connections. The first slot of a stagger
// starts at once.
func TestNoConnectionsBeforeTheStart(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 10, Requests: 20, Stagger: span(100 * ms)},
			newEngine(t, 50*ms, 0))
		if c, _, _ := loadConnecting(t, stage, 0); len(c.at) != 1 {
			t.Errorf("%d connections were opened before the start", len(c.at))
		}
	})(t)
}

// TestOpeningEndsBeforeTheStart: a server with slow handshakes delays no start.
func TestOpeningEndsBeforeTheStart(t *testing.T) {
	virtual(func(t *testing.T) {
		stage := enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 3, Requests: 3}, newEngine(t, 0, 0))
		c, _, o := loadConnecting(t, stage, time.Hour)
		if late := time.Duration(o.Totals.GetStartErrorNs()); late != 0 || len(c.at) != 0 {
			t.Errorf("the start was %v late, %d connections were opened", late, len(c.at))
		}
		if n := o.Totals.GetCounters().GetCompleted(); n != 3 {
			t.Errorf("%d requests completed, want 3", n)
		}
	})(t)
}
