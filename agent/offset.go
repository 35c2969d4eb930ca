package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// How the coordinator's clock is asked: many times at first, so that quick ways there and back are among them, then a
// few times each second while a start may be near, then once. Probes follow each other without waiting for answers, so
// that the clock is known after little more than one round trip.
const (
	firstProbes   = 16
	eagerProbes   = 4
	eagerTime     = 10 * time.Second
	probeGap      = 10 * time.Millisecond
	probeInterval = time.Second
	probeTimeout  = 5 * time.Second
)

// shortestSleep is how long this machine's clock may stand still without consequences: half a window.
const shortestSleep = 500 * time.Millisecond

// offsetClock knows the coordinator's clock, for one session: another coordinator has another clock. It is safe for
// concurrent use.
type offsetClock struct {
	settled chan struct{}       // closed after the first probes
	leapt   func(time.Duration) // is told if this machine's clock stood still for longer than shortestSleep

	mu        sync.Mutex
	estimator clock.Estimator
	eager     clock.Instant // until then there are more probes
}

// init makes the clock ready. It is called once, before all else.
func (c *offsetClock) init(leapt func(time.Duration)) {
	c.settled, c.leapt = make(chan struct{}), leapt
	c.hurry()
}

// hurry says that a start may be near.
func (c *offsetClock) hurry() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eager = clock.Now().Add(eagerTime)
}

// probes is how many are due now.
func (c *offsetClock) probes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if clock.Now() < c.eager {
		return eagerProbes
	}
	return 1
}

// now returns the offset to the coordinator's clock, false if it is not known yet.
func (c *offsetClock) now() (clock.Offset, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimator.At(clock.Now())
}

// here returns this machine's instant of one of the coordinator's, and how wrong it can be at most when it comes: until
// then the clocks drift apart. It is false if the coordinator's clock is not known.
func (c *offsetClock) here(there clock.Instant) (at clock.Instant, uncertainty time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, known := c.estimator.At(clock.Now())
	if !known {
		return 0, 0, false
	}
	at = o.Here(there)
	// What the offset will be then moves the instant, and that the offset a little: by 0.01 % of the way each time.
	for range 2 {
		o, _ = c.estimator.At(max(at, clock.Now()))
		at = o.Here(there)
	}
	return at, o.Uncertainty, true
}

// follow probes the clock until ctx ends or a probe is not answered: then the coordinator is gone, whatever the other
// streams say.
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
		if err := c.burst(ctx, service, c.probes()); err != nil {
			return err
		}
	}
}

// burst takes so many samples.
func (c *offsetClock) burst(ctx context.Context, service spatev1.ControlServiceClient, probes int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range probes {
		group.Go(func() error {
			if !rest(ctx, time.Duration(i)*probeGap) {
				return ctx.Err()
			}
			return c.probe(ctx, service)
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("clock probe: %w", err)
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
	leap := c.add(clock.Sample{
		Asked: asked, Received: clock.Instant(m.GetReceivedClockNs()),
		Sent: clock.Instant(m.GetSentClockNs()), Answered: answered,
	})
	if leap > shortestSleep {
		c.leapt(leap)
	}
	return nil
}

// add takes in a sample and returns the leap that it shows.
func (c *offsetClock) add(s clock.Sample) (leap time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.estimator.Add(s)
	return c.estimator.Leap()
}
