package influx

import (
	"bytes"
	"fmt"
	"sync"
	"time"
)

// batch is the oldest part of the queue, to be sent in one request.
type batch struct {
	lines   []byte
	entries int
	points  int
	spooled bool  // read from the spool, not from memory
	moves   int   // the queue's moves when the batch was read
	behind  int64 // offset in the spool after the batch
}

func (b *batch) add(lines []byte) {
	b.lines = append(b.lines, lines...)
	b.entries++
	b.points += points(lines)
}

// points counts the points in line protocol: one per line.
func points(lines []byte) int { return bytes.Count(lines, []byte{'\n'}) }

// memoryTime is how long entries stay only in memory. If the process is killed, they are lost. It is short because a
// restarted coordinator gives again only the points from shortly before.
const memoryTime = time.Second

// queue keeps entries in order. The oldest ones are in memory. Once memory is full or its oldest entry has waited for
// memoryTime, new entries go to the spool until the spool has been sent. An entry is the lines of one call.
type queue struct {
	wake chan struct{} // holds one token while there may be new entries

	mu     sync.Mutex
	memory [][]byte  // oldest first
	since  time.Time // when the oldest entry in memory arrived, or the one before it was sent
	bytes  int       // size of memory
	limit  int       // maximum size of memory, in bytes
	spool  *spool
	moves  int  // how often memory was moved to the spool
	stuck  bool // moving memory to the spool failed
	now    func() time.Time
	lost   int   // points for which neither memory nor disk had room
	cause  error // why the first of them was lost
}

func newQueue(limit int, s *spool) *queue {
	q := &queue{wake: make(chan struct{}, 1), limit: limit, spool: s, now: time.Now}
	if !s.empty() {
		q.wake <- struct{}{}
	}
	return q
}

// put adds an entry at the end. It writes to disk only if memory is full, has waited for memoryTime, or the spool is in
// use.
func (q *queue) put(lines []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.memory) == 0 {
		q.since, q.stuck = q.now(), false
	} else if q.now().Sub(q.since) >= memoryTime {
		q.move()
	}
	if q.spool.empty() && q.bytes+len(lines) <= q.limit {
		q.memory = append(q.memory, lines)
		q.bytes += len(lines)
	} else if err := q.spool.add(lines); err != nil {
		q.lose(points(lines), err)
		return
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// save moves memory to the spool because the server does not take it.
func (q *queue) save() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.move()
}

// move moves all of memory to the spool, or nothing if that fails or the spool already has newer entries. The caller
// must hold the lock.
func (q *queue) move() {
	if q.stuck || len(q.memory) == 0 || !q.spool.empty() {
		return
	}
	for _, lines := range q.memory {
		if q.spool.add(lines) != nil {
			q.spool.forget()
			q.stuck = true // the entries stay in memory until they are sent: nothing is lost yet
			return
		}
	}
	q.memory, q.bytes = nil, 0
	q.moves++
}

// lose counts points that could not be kept. The caller must hold the lock.
func (q *queue) lose(count int, cause error) {
	q.lost += count
	if q.cause == nil {
		q.cause = cause
	}
}

// peek returns the oldest entries without removing them: at least one unless the queue is empty, at most mostEntries,
// and at most mostBytes if there are several.
func (q *queue) peek(mostEntries, mostBytes int) (batch, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.memory) == 0 {
		if q.spool.empty() {
			return batch{}, nil
		}
		b, err := q.spool.peek(mostEntries, mostBytes)
		b.spooled = true
		return b, err
	}
	b := batch{moves: q.moves}
	for _, lines := range q.memory {
		if b.entries == mostEntries || b.entries > 0 && len(b.lines)+len(lines) > mostBytes {
			break
		}
		b.add(lines)
	}
	return b, nil
}

// take removes what peek returned. Only one goroutine may peek and take.
func (q *queue) take(b batch) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !b.spooled && b.moves != q.moves { // moved to the spool meanwhile: to its head
		b.spooled, b.behind = true, q.spool.head+int64(len(b.lines))+int64(b.entries)*headerSize
	}
	if b.spooled {
		return q.spool.take(b)
	}
	q.since = q.now()
	for _, lines := range q.memory[:b.entries] {
		q.bytes -= len(lines)
	}
	clear(q.memory[:b.entries])
	q.memory = q.memory[b.entries:]
	return nil
}

// waiting returns the number of points in the queue.
func (q *queue) waiting() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pending()
}

func (q *queue) pending() int {
	count := q.spool.left
	for _, lines := range q.memory {
		count += points(lines)
	}
	return count
}

// close writes what is in the queue to the spool's file, or removes the file if the queue is empty. It returns the
// number of points in the file.
func (q *queue) close() (left int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	left = q.pending()
	if left == 0 {
		return 0, q.spool.remove()
	}
	if err := q.spool.prepend(q.memory); err != nil {
		inMemory := left - q.spool.left
		q.lose(inMemory, fmt.Errorf("save the queue: %w", err))
		left -= inMemory
	}
	q.memory = nil
	return left, q.spool.close()
}
