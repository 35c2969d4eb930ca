package storage

import (
	"testing"
	"testing/synctest"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A claim waits for the one that has its key, and for no other.
func TestAClaimWaitsForItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(sequence uint64) *spatev1.SnapshotKey {
			return &spatev1.SnapshotKey{Agent: "a", Incarnation: 1, Sequence: sequence}
		}
		var c Claims
		first := c.Claim(key(1))
		var same, other bool
		go func() {
			release := c.Claim(key(1))
			same = true
			release()
		}()
		go func() {
			c.Claim(key(2))()
			other = true
		}()
		synctest.Wait()
		if same || !other {
			t.Errorf("while key 1 is claimed: claimed again %v, key 2 claimed %v", same, other)
		}
		first()
		synctest.Wait()
		if !same || len(c.held) != 0 {
			t.Errorf("claimed again %v, and %d keys are held", same, len(c.held))
		}
	})
}
