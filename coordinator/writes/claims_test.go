package writes

import (
	"testing"
	"testing/synctest"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A claim waits for those that have one of its keys, holds nothing meanwhile, and then has all of them.
func TestClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := func(sequence uint64) *spatev1.SnapshotKey {
			return &spatev1.SnapshotKey{Agent: "a", Incarnation: 1, Sequence: sequence}
		}
		var c Claims
		first := c.Claim(key(1), key(2))
		var both, third bool
		go func() {
			release := c.Claim(key(3), key(2))
			both = true
			release()
		}()
		synctest.Wait()
		go func() {
			c.Claim(key(3))()
			third = true
		}()
		synctest.Wait()
		if both || !third {
			t.Errorf("while the first has key 2: the second has it %v, the third has key 3 %v", both, third)
		}
		first()
		synctest.Wait()
		if !both || len(c.held) != 0 {
			t.Errorf("the second has its keys %v, and %d keys are held", both, len(c.held))
		}
	})
}
