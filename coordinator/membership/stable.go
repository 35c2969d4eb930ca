package membership

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Stable blocks until the members have not changed for quiet, so that work is not split while agents still arrive. It
// fails when ctx ends first, or at Close. The caller bounds the wait with ctx, and may continue with the current
// members.
func (c *Cluster) Stable(ctx context.Context, quiet time.Duration) error {
	return settle(ctx, c.stop, c.Changed, quiet)
}

// settle blocks until a channel returned by changed stays open for quiet.
func settle(ctx context.Context, stop <-chan struct{}, changed func() <-chan struct{}, quiet time.Duration) error {
	timer := time.NewTimer(quiet)
	defer timer.Stop()
	for {
		select {
		case <-changed():
			timer.Reset(quiet)
		case <-timer.C:
			return nil
		case <-stop:
			return errors.New("membership: closed")
		case <-ctx.Done():
			return fmt.Errorf("membership: members keep changing: %w", ctx.Err())
		}
	}
}
