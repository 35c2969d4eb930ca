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

// This file estimates the clock of a coordinator for its agents, for as long as a session lasts: by
// probes, and by the answers to heartbeats where these have the time.

// The clock probes: many at first, so that some have short round trips, then a few each second while a start may be
// near, then one each second unless there are samples without probes. Probes do not wait for each other's answers, so
// the clock is known after little more than one round trip.
const (
	firstProbes   = 16
	eagerProbes   = 4
	eagerTime     = 10 * time.Second
	probeGap      = 10 * time.Millisecond
	probeInterval = time.Second
	probeTimeout  = 5 * time.Second
	// toldLately is how old a sample without a probe may be so that no probe is needed: two heartbeats, and some time
	// that an answer may be late.
	toldLately = 2500 * time.Millisecond
)

// MaxStandstill is how long this machine's clock may stand still without consequences: half a window.
const MaxStandstill = 500 * time.Millisecond

// coordinatorClock estimates the coordinator's clock, for one session: another coordinator has another clock. It is
// safe for concurrent use.
type coordinatorClock struct {
	settled chan struct{}       // closed after the first probes
	onLeap  func(time.Duration) // called if this machine's clock stood still for longer than MaxStandstill

	mu        sync.Mutex
	estimator clock.Estimator
	eager     clock.Instant // end of the time with more probes
	told      clock.Instant // when the last sample without a probe came; 0: none has
}

// newCoordinatorClock returns a clock that is not known yet. onLeap is called when this machine's clock has stood still
// for longer than MaxStandstill, with by how much at least.
func newCoordinatorClock(onLeap func(time.Duration)) *coordinatorClock {
	c := &coordinatorClock{settled: make(chan struct{}), onLeap: onLeap}
	c.ProbeOften()
	return c
}

// ProbeOften asks for more probes for a while, because a start may be near.
func (c *coordinatorClock) ProbeOften() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eager = clock.Now().Add(eagerTime)
}

// ProbeSeldom ends what ProbeOften began: the start is known.
func (c *coordinatorClock) ProbeSeldom() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.eager = clock.Now()
}

// probes returns how many probes are due now.
func (c *coordinatorClock) probes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := clock.Now(); {
	case now < c.eager:
		return eagerProbes
	case c.told != 0 && now.Sub(c.told) < toldLately:
		return 0
	}
	return 1
}

// Take adds the sample that a heartbeat and its answer are, if the answer has the time. There are no probes while such
// samples come, unless a start may be near.
func (c *coordinatorClock) Take(asked, answered clock.Instant, m *spatev1.Renewed) {
	if m.GetSentClockNs() != 0 && c.add(sampleOf(asked, answered, m)) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.told = answered
	}
}

// sampleOf returns the sample that an exchange is.
func sampleOf(asked, answered clock.Instant, m interface {
	GetReceivedClockNs() int64
	GetSentClockNs() int64
}) clock.Sample {
	return clock.Sample{Asked: asked, Received: clock.Instant(m.GetReceivedClockNs()),
		Sent: clock.Instant(m.GetSentClockNs()), Answered: answered}
}

// Now returns the offset to the coordinator's clock, or false if it is not known yet.
func (c *coordinatorClock) Now() (clock.Offset, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.estimator.At(clock.Now())
}

// ToLocal converts an instant of the coordinator's clock to this machine's. It also returns the largest possible error
// at that instant: the clocks drift apart until then. It returns false if the coordinator's clock is not known.
func (c *coordinatorClock) ToLocal(there clock.Instant) (at clock.Instant, uncertainty time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, known := c.estimator.At(clock.Now())
	if !known {
		return 0, 0, false
	}
	at = o.Here(there)
	// The offset at that instant moves the instant, which changes the offset a little: by 0.01 % of the way each time.
	for range 2 {
		o, _ = c.estimator.At(max(at, clock.Now()))
		at = o.Here(there)
	}
	return at, o.Uncertainty, true
}

// Follow probes the clock until ctx ends or a probe fails. A probe that is not answered means that the coordinator is
// gone, even if the streams still look healthy. Without probes, Take's caller has to notice that.
func (c *coordinatorClock) Follow(ctx context.Context, service spatev1.ControlServiceClient) error {
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

// burst takes that many samples.
func (c *coordinatorClock) burst(ctx context.Context, service spatev1.ControlServiceClient, probes int) error {
	group, ctx := errgroup.WithContext(ctx)
	for i := range probes {
		group.Go(func() error {
			if !clock.Sleep(ctx, time.Duration(i)*probeGap) {
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
func (c *coordinatorClock) probe(ctx context.Context, service spatev1.ControlServiceClient) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	asked := clock.Now()
	m, err := service.ProbeClock(ctx, &spatev1.ProbeClockRequest{})
	answered := clock.Now()
	if err != nil {
		return err
	}
	c.add(sampleOf(asked, answered, m))
	return nil
}

// add adds a sample to the estimate and reports whether it was usable. It calls onLeap if this machine's clock stood
// still.
func (c *coordinatorClock) add(s clock.Sample) (usable bool) {
	c.mu.Lock()
	usable = c.estimator.Add(s)
	leap := c.estimator.Leap()
	c.mu.Unlock()
	if leap > MaxStandstill {
		c.onLeap(leap)
	}
	return usable
}
