package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/histogram"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// crowd is all agents.
type crowd struct {
	settings
	series  []*spatev1.Series
	rows    []*spatev1.RequestRecord
	began   chan struct{} // closed when the first agent is armed
	start   atomic.Int64  // when the stage starts, from then on
	once    sync.Once
	answers answers
}

// answers holds the coordinator's answers to snapshots and heartbeats.
type answers struct {
	acked, refused, timed atomic.Uint64
	last                  atomic.Value // reason of the last refusal

	mu    sync.Mutex
	acks  *histogram.Histogram // from sending a snapshot to its ack
	beats *histogram.Histogram // round trips of heartbeats
}

func newCrowd(s settings) *crowd {
	c := &crowd{settings: s, series: makeSeries(s.values),
		began: make(chan struct{})}
	if s.records != "" {
		c.rows = makeRows(s.values)
	}
	c.answers.acks, c.answers.beats = histogram.New(histogram.Times), histogram.New(histogram.Times)
	return c
}

// play runs all agents until ctx ends or one of them fails.
func (c *crowd) play(ctx context.Context) error {
	agents := make([]*agent, c.agents)
	for i := range agents {
		agents[i] = &agent{
			crowd: c, number: i, incarnation: rand.Uint64() | 1,
			info: &spatev1.AgentInfo{
				Name: fmt.Sprintf("agent-%04d", i), Region: fmt.Sprintf("region-%d", i%c.regions), Version: "bench",
				Host:   "bench",
				Weight: uint32(1 + i%3), Cores: 4,
			},
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, a := range agents {
		group.Go(func() error {
			if !clock.Sleep(ctx, c.join*time.Duration(i)/time.Duration(c.agents)) {
				return nil
			}
			if err := a.attend(ctx); err != nil && ctx.Err() == nil {
				return fmt.Errorf("agent %d: %w", a.number, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// armed records when the stage starts.
func (c *crowd) armed(m *spatev1.Arm) {
	c.once.Do(func() {
		c.start.Store(m.GetStartClockNs())
		close(c.began)
	})
}

// acknowledged records an answer to a snapshot.
func (a *answers) acknowledged(m *spatev1.PushResponse, after time.Duration) {
	if reason := m.GetRefused(); reason != "" {
		a.refused.Add(1)
		a.last.Store(reason)
		return
	}
	a.acked.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.acks.Record(int64(after))
}

// awaitAcks waits until all snapshots were answered, at most for some seconds: the run may end before the agents have
// read the last answers.
func (c *crowd) awaitAcks(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for want := uint64(c.agents * c.windows); c.answers.acked.Load()+c.answers.refused.Load() < want; {
		if !clock.Sleep(ctx, 10*time.Millisecond) {
			return
		}
	}
}

// answeredBeat records a heartbeat's round trip, and whether the answer makes it a clock probe.
func (a *answers) answeredBeat(after time.Duration, timed bool) {
	if timed {
		a.timed.Add(1)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.beats.Record(int64(after))
}
