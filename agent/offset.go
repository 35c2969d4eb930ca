package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// How the coordinator's clock is asked: many times at first, so that one quick answer is among them, then a few each second.
const (
	firstProbes   = 16
	laterProbes   = 4
	probeInterval = time.Second
	probeTimeout  = 5 * time.Second
)

// offsetClock knows the coordinator's clock, for one session: another coordinator has another clock. It is safe for concurrent use.
type offsetClock struct {
	settled chan struct{} // closed after the first probes

	mu        sync.Mutex
	estimator clock.Estimator
}

func (c *offsetClock) init() { c.settled = make(chan struct{}) }

// now returns the offset to the coordinator's clock, false if it is not known yet.
func (c *offsetClock) now() (clock.Offset, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimator.At(clock.Now())
}

// follow probes the clock until ctx ends or a probe is not answered: then the coordinator is gone, whatever the other streams say.
func (c *offsetClock) follow(ctx context.Context, service spatev1.ControlServiceClient) error {
	if err := c.burst(ctx, service, firstProbes); err != nil {
		return err
	}
	close(c.settled)
	tick := time.NewTicker(probeInterval)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := c.burst(ctx, service, laterProbes); err != nil {
			return err
		}
	}
}

func (c *offsetClock) burst(ctx context.Context, service spatev1.ControlServiceClient, probes int) error {
	for range probes {
		if err := c.probe(ctx, service); err != nil {
			return fmt.Errorf("clock probe: %w", err)
		}
	}
	return nil
}

// probe takes one sample.
func (c *offsetClock) probe(ctx context.Context, service spatev1.ControlServiceClient) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	asked := clock.Now()
	m, err := service.ProbeClock(ctx, &spatev1.ProbeClockRequest{})
	answered := clock.Now()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.estimator.Add(clock.Sample{
		Asked: asked, Received: clock.Instant(m.GetReceivedClockNs()),
		Sent: clock.Instant(m.GetSentClockNs()), Answered: answered,
	})
	return nil
}
