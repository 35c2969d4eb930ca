package storage

import (
	"crypto/rand"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/spate-load/spate/aggregate/ledger"
	"github.com/spate-load/spate/clock"
	"github.com/spate-load/spate/internal/files"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Disk stores a run's records and snapshots: its ledger. All methods block until their argument is durable.
type Disk interface {
	Put(ledger.Change) error
	Append([]*spatev1.Snapshot) (fresh []bool, err error)
}

// Watched is a disk that knows whether it makes progress. It is safe for concurrent use.
type Watched struct {
	disk Disk
	now  func() clock.Instant

	mu      sync.Mutex
	waiting int           // writes that have not returned
	moved   clock.Instant // when the first of them started, or a write last returned
}

// Watch returns a disk whose progress is watched by a clock.
func Watch(d Disk, now func() clock.Instant) *Watched { return &Watched{disk: d, now: now} }

// Put writes a change and blocks until it is durable.
func (w *Watched) Put(change ledger.Change) error {
	w.begin()
	defer w.end()
	return w.disk.Put(change)
}

// Append writes a snapshot and blocks until it is durable. fresh is false if the ledger already had it.
func (w *Watched) Append(s *spatev1.Snapshot) (fresh bool, err error) {
	w.begin()
	defer w.end()
	written, err := w.disk.Append([]*spatev1.Snapshot{s})
	return err == nil && written[0], err
}

// stallAfter is how long writes may wait without progress before time stops for the run's machine.
const stallAfter = time.Second

// Stalled reports whether writes wait and none has returned for longer than stallAfter. While that is so, what the
// run's machine decides could not be told to anyone, so time must stop for it.
func (w *Watched) Stalled() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waiting > 0 && w.now().Sub(w.moved) > stallAfter
}

// begin notes that a write starts.
func (w *Watched) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting == 0 {
		w.moved = w.now()
	}
	w.waiting++
}

// end notes that a write has returned.
func (w *Watched) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.waiting, w.moved = w.waiting-1, w.now()
}

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
	c.mu.Lock()
	defer c.mu.Unlock()
	for other := c.held[one]; other != nil; other = c.held[one] {
		c.mu.Unlock()
		<-other
		c.mu.Lock()
	}
	if c.held == nil {
		c.held = map[claim]chan struct{}{}
	}
	c.held[one] = own
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.held, one)
		close(own)
	}
}

// Queue is the queue of a run's tasks that may wait for the disk. It is safe for concurrent use; the zero value is
// ready to use.
type Queue struct {
	mu    sync.Mutex
	tasks []func()
	busy  bool // a goroutine works on them
}

// Push adds a task. It reports whether the caller must start the goroutine that works on the queue. It does not block.
func (q *Queue) Push(task func()) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.tasks = append(q.tasks, task)
	start, q.busy = !q.busy, true
	return start
}

// Pop removes and returns the oldest task. If there is none, it returns nil and the goroutine must end.
func (q *Queue) Pop() func() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.tasks) == 0 {
		q.busy = false
		return nil
	}
	task := q.tasks[0]
	q.tasks = q.tasks[1:]
	return task
}

// Reserve is disk space that a run holds back for its end. A full disk ends the run, and the end must be written too.
// Otherwise a coordinator that is restarted when there is space again would continue a run that its client has seen
// end.
type Reserve string // path of the file that holds the space

// reserveBytes is ten times what the pages of a run's last records take.
const reserveBytes = 1 << 20

// Hold takes the space, unless it is held already. A run continues without it, since only a full disk would need it.
func (r Reserve) Hold(log *slog.Logger) {
	if info, err := os.Stat(string(r)); err == nil && info.Size() == reserveBytes {
		return
	}
	room := make([]byte, reserveBytes)
	rand.Read(room) // zeros would take no space on a file system that compresses; never fails, by its contract
	if err := files.Replace(string(r), room); err != nil {
		log.Warn("no disk space is reserved for the end of the run", "error", err)
	}
}

// Release frees the space and reports whether there was any.
func (r Reserve) Release() bool { return os.Remove(string(r)) == nil }
