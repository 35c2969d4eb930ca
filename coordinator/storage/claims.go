package storage

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

// Claim blocks until nobody else has the key, and returns a function that gives it up.
func (c *Claims) Claim(k *spatev1.SnapshotKey) (release func()) {
	one, own := claim{k.GetAgent(), k.GetIncarnation(), k.GetSequence()}, make(chan struct{})
	for other := c.try(one, own); other != nil; other = c.try(one, own) {
		<-other
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.held, one)
		close(own)
	}
}

// try claims a key, or returns a channel that is closed when it is free.
func (c *Claims) try(one claim, own chan struct{}) (other chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.held[one]; other != nil {
		return other
	}
	if c.held == nil {
		c.held = map[claim]chan struct{}{}
	}
	c.held[one] = own
	return nil
}
