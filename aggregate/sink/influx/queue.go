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
	moves   int   // of the queue when it was read
	behind  int64 // offset in the spool behind it
}

func (b *batch) add(lines []byte) {
	b.lines = append(b.lines, lines...)
	b.entries++
	b.points += points(lines)
}

// points counts points in line protocol: one a line.
func points(lines []byte) int { return bytes.Count(lines, []byte{'\n'}) }

// memoryTime is how long entries wait in memory alone. A process that is killed forgets them, and what a coordinator
// that is started anew hands on again is what it had handed on shortly before.
const memoryTime = time.Second

// queue keeps entries in order: the oldest in memory, and from the moment memory is full, or its oldest entry has
// waited for memoryTime, all in the spool, until the spool has been sent. An entry is the lines of one call.
type queue struct {
	wake chan struct{} // holds one token while there may be something new

	mu     sync.Mutex
	memory [][]byte  // oldest first
	since  time.Time // when the oldest of memory came, or the one before it was sent
	bytes  int       // size of memory
	limit  int       // most bytes in memory
	spool  *spool
	moves  int  // from memory to the spool
	stuck  bool // the spool did not take them
	now    func() time.Time
	lost   int   // points that found no room: memory full and the disk too
	cause  error // why the first of them did
}

func newQueue(limit int, s *spool) *queue {
	q := &queue{wake: make(chan struct{}, 1), limit: limit, spool: s, now: time.Now}
	if !s.empty() {
		q.wake <- struct{}{}
	}
	return q
}

// put adds an entry at the end. It touches the disk only when memory is full, or waits for the server.
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

// save moves what is in memory to the spool: it waits for a server that does not take it.
func (q *queue) save() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.move()
}

// move moves memory to the spool, whole or not at all, unless the spool has newer entries already. The caller holds the
// lock.
func (q *queue) move() {
	if q.stuck || len(q.memory) == 0 || !q.spool.empty() {
		return
	}
	for _, lines := range q.memory {
		if q.spool.add(lines) != nil {
			q.spool.forget()
			q.stuck = true // until it is sent it stays where it is: nothing is lost yet
			return
		}
	}
	q.memory, q.bytes = nil, 0
	q.moves++
}

// lose counts points that could not be kept. The caller holds the lock.
func (q *queue) lose(count int, cause error) {
	q.lost += count
	if q.cause == nil {
		q.cause = cause
	}
}

// peek returns the oldest entries without removing them: at least one unless the queue is empty, together no more than
// mostEntries, and no more than mostBytes if they are several.
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
	if !b.spooled && b.moves != q.moves { // it was moved meanwhile: to the head
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

// waiting is the number of points in the queue.
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

// close leaves what is in the queue in the spool's file, or no file if the queue is empty. It returns how many points
// those are.
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
