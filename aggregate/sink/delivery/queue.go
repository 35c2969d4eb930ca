package delivery

import (
	"slices"
	"sync"

	"github.com/spate-load/spate/aggregate/sink"
)

// queue keeps rows in order until they are sent. Rows that do not fit are dropped, and counted.
type queue struct {
	mu       sync.Mutex
	news     sync.Cond // rows came, or the queue was closed
	rows     []sink.Row
	bytes    int // approximate size of rows in memory
	limit    int // maximum of bytes
	accepted int // rows that were put, without the dropped ones
	dropped  int
	closed   bool
}

func newQueue(limit int) *queue {
	q := &queue{limit: limit}
	q.news.L = &q.mu
	return q
}

// put adds rows at the end, and does not block. It copies fields, because rows have room for all metrics.
func (q *queue) put(rows []sink.Row) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, row := range rows {
		size := sizeOf(&row)
		if q.bytes+size > q.limit {
			q.dropped++
			continue
		}
		row.Fields = slices.Clone(row.Fields)
		q.rows = append(q.rows, row)
		q.bytes += size
		q.accepted++
	}
	q.news.Signal()
}

// take removes the oldest rows, at most some number, and blocks until there are any. It returns none if the queue is
// closed and empty.
func (q *queue) take(most int) []sink.Row {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.rows) == 0 && !q.closed {
		q.news.Wait()
	}
	rows := slices.Clone(q.rows[:min(most, len(q.rows))])
	for i := range rows {
		q.bytes -= sizeOf(&rows[i])
	}
	q.rows = slices.Delete(q.rows, 0, len(rows))
	return rows
}

// close makes take return when the queue is empty.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.news.Signal()
}

// counts returns how many rows were accepted and dropped.
func (q *queue) counts() (accepted, dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.accepted, q.dropped
}

// sizeOf returns about how much memory a row takes.
func sizeOf(row *sink.Row) int {
	const rowBytes, fieldBytes, tagBytes = 96, 56, 32
	size := rowBytes + fieldBytes*len(row.Fields) + tagBytes*len(row.Tags)
	for i := range row.Fields {
		size += len(row.Fields[i].Text)
	}
	return size
}
