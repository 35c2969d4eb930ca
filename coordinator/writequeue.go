package coordinator

import (
	"sync"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Code that holds Coordinator.mu never waits for the disk: heartbeats need that lock, and an agent whose heartbeats are
// not answered loses its lease. What a run's machine decides is queued under the lock, in order. A goroutine of the run
// writes it, and only then tells agents and followers.

// disk stores a run's records and snapshots: its ledger. Both methods block until their argument is durable.
type disk interface {
	Put(ledger.Change) error
	Append([]*spatev1.Snapshot) (fresh []bool, err error)
}

// writeQueue is the queue of a run's tasks that may wait for the disk.
type writeQueue struct {
	mu    sync.Mutex
	tasks []func()
	busy  bool // a goroutine works on them
}

// push adds a task and reports whether the caller must start the goroutine that works on the queue.
func (s *writeQueue) push(task func()) (start bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tasks = append(s.tasks, task)
	start, s.busy = !s.busy, true
	return start
}

// pop removes and returns the oldest task. If there is none, it returns nil and the goroutine must end.
func (s *writeQueue) pop() func() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) == 0 {
		s.busy = false
		return nil
	}
	task := s.tasks[0]
	s.tasks = s.tasks[1:]
	return task
}

// later queues a task of a run that waits or is in progress. A run's tasks run one after another, without c.mu. It does
// not block. c.mu is held, or the caller is one of c.workers.
func (c *Coordinator) later(r *run, task func()) {
	if !r.writes.push(task) {
		return
	}
	c.workers.Go(func() {
		for task := r.writes.pop(); task != nil; task = r.writes.pop() {
			c.guarded(r, task)
		}
	})
}

// written returns a channel that is closed when everything queued for a run so far is durable or has failed. c.mu is
// held.
func (c *Coordinator) written(r *run) <-chan struct{} {
	done := make(chan struct{})
	if c.closed {
		close(done) // no new tasks while the coordinator closes
		return done
	}
	c.later(r, func() { close(done) })
	return done
}

// stallAfter is how long writes may wait without progress before time stops for the run's machine. Until the disk is
// back, what the machine decides could not be told to anyone.
const stallAfter = time.Second

// stalls detects that the disk makes no progress. The zero value is ready to use.
type stalls struct {
	mu      sync.Mutex
	waiting int           // writes that have not returned
	moved   clock.Instant // when the first of them started, or a write last returned
}

// begin notes that a write starts.
func (s *stalls) begin(at clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting == 0 {
		s.moved = at
	}
	s.waiting++
}

// end notes that a write has returned.
func (s *stalls) end(at clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting, s.moved = s.waiting-1, at
}

// stalled reports whether writes wait and none has returned for longer than stallAfter.
func (s *stalls) stalled(at clock.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.waiting > 0 && at.Sub(s.moved) > stallAfter
}

// put writes a change and blocks until it is durable.
func (r *run) put(change ledger.Change) error {
	r.stalls.begin(clock.Now())
	defer func() { r.stalls.end(clock.Now()) }()
	return r.disk.Put(change)
}

// append writes a snapshot and blocks until it is durable. fresh is false if the ledger already had it.
func (r *run) append(s *spatev1.Snapshot) (fresh bool, err error) {
	r.stalls.begin(clock.Now())
	defer func() { r.stalls.end(clock.Now()) }()
	written, err := r.disk.Append([]*spatev1.Snapshot{s})
	return err == nil && written[0], err
}
