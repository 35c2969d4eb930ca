package storage

import (
	"sync"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Disk stores a run's records and snapshots: its ledger. All methods block until their argument is durable.
type Disk interface {
	Put(ledger.Change) error
	Append([]*spatev1.Snapshot) (fresh []bool, err error)
}

// Watched is a disk that knows whether it makes progress. It is safe for concurrent use.
type Watched struct {
	disk   Disk
	now    func() clock.Instant
	stalls stalls
}

// Watch returns a disk whose progress is watched by a clock.
func Watch(d Disk, now func() clock.Instant) *Watched { return &Watched{disk: d, now: now} }

// Put writes a change and blocks until it is durable.
func (w *Watched) Put(change ledger.Change) error {
	w.stalls.begin(w.now())
	defer func() { w.stalls.end(w.now()) }()
	return w.disk.Put(change)
}

// Append writes a snapshot and blocks until it is durable. fresh is false if the ledger already had it.
func (w *Watched) Append(s *spatev1.Snapshot) (fresh bool, err error) {
	w.stalls.begin(w.now())
	defer func() { w.stalls.end(w.now()) }()
	written, err := w.disk.Append([]*spatev1.Snapshot{s})
	return err == nil && written[0], err
}

// Stalled reports whether writes wait and none has returned for longer than a second. While that is so, what the run's
// machine decides could not be told to anyone, so time must stop for it.
func (w *Watched) Stalled() bool { return w.stalls.stalled(w.now()) }

// stallAfter is how long writes may wait without progress before time stops for the run's machine.
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
