package simulator

import (
	"sync"
	"sync/atomic"
)

// crew sends the frames of one instant on several processors: the goroutine that calls each, and helpers that sleep
// until there is enough to send. A crew without helpers is the caller alone.
type crew struct {
	wake    []chan struct{} // one for each helper
	helpers sync.WaitGroup  // ends with the last helper

	next    atomic.Int64 // first item that no one has taken
	count   int64
	do      func(item int)
	working sync.WaitGroup // helpers that may still take items
}

// Items are taken in runs of takenAtOnce. A helper is woken for at least leastForHelper items: fewer are sent
// before it is awake.
const (
	takenAtOnce    = 8
	leastForHelper = 32
)

// newCrew starts the helpers of a crew for a number of processors, at least 1. The caller closes the crew.
func newCrew(processors int) *crew {
	c := &crew{}
	for range processors - 1 {
		wake := make(chan struct{}, 1)
		c.wake = append(c.wake, wake)
		c.helpers.Go(func() {
			for range wake {
				c.work()
				c.working.Done()
			}
		})
	}
	return c
}

// close stops the helpers and waits for them. each must not be called after it.
func (c *crew) close() {
	for _, wake := range c.wake {
		close(wake)
	}
	c.helpers.Wait()
}

// each calls do for every item from 0 to count-1, each once and in no particular order, and returns when all calls have
// returned. It is not for concurrent use.
func (c *crew) each(count int, do func(item int)) {
	helpers := min(len(c.wake), count/leastForHelper)
	if helpers == 0 {
		for i := range count {
			do(i)
		}
		return
	}
	c.next.Store(0)
	c.count, c.do = int64(count), do
	c.working.Add(helpers)
	for _, wake := range c.wake[:helpers] {
		wake <- struct{}{}
	}
	c.work()
	c.working.Wait()
}

// work takes items until none is left.
func (c *crew) work() {
	for {
		end := c.next.Add(takenAtOnce)
		if end-takenAtOnce >= c.count {
			return
		}
		for i := end - takenAtOnce; i < min(end, c.count); i++ {
			c.do(int(i))
		}
	}
}
