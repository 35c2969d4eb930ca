package writes

import (
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Claims keep two callers from adding the same snapshot at once. The zero value is ready to use.
type Claims struct {
	mu   sync.Mutex
	held map[claim]chan struct{} // closed when released
}

// claim names a snapshot of a run.
type claim struct {
	agent                 string
	incarnation, sequence uint64
}

// Claim blocks until nobody else has any of the keys, and returns a function that gives them up. A caller that waits
// holds none of them.
func (c *Claims) Claim(keys ...*spatev1.SnapshotKey) (release func()) {
	claims := make([]claim, len(keys))
	for i, k := range keys {
		claims[i] = claim{k.GetAgent(), k.GetIncarnation(), k.GetSequence()}
	}
	own := make(chan struct{})
	for other := c.try(claims, own); other != nil; other = c.try(claims, own) {
		<-other
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, k := range claims {
			delete(c.held, k)
		}
		close(own)
	}
}

// try claims all keys, or returns a channel that is closed when one of them is free.
func (c *Claims) try(claims []claim, own chan struct{}) (other chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range claims {
		if c.held[k] != nil {
			return c.held[k]
		}
	}
	if c.held == nil {
		c.held = map[claim]chan struct{}{}
	}
	for _, k := range claims {
		c.held[k] = own
	}
	return nil
}
