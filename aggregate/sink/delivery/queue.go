package delivery

import (
	"slices"
	"sync"

	"github.com/spate-load/spate/aggregate/sink"
)

// queue keeps rows in order until they are sent. Rows that do not fit are dropped, and counted.
type queue struct {
	stores func(measurement string, field *sink.Field) bool // other fields are not kept

	mu       sync.Mutex
	news     sync.Cond // rows came, or the queue was closed
	rows     []sink.Row
	bytes    int // approximate size of rows in memory
	limit    int // maximum of bytes
	accepted int // rows that were put, without the dropped ones
	dropped  int
	closed   bool
}

func newQueue(limit int, stores func(measurement string, field *sink.Field) bool) *queue {
	q := &queue{limit: limit, stores: stores}
	q.news.L = &q.mu
	return q
}

// put adds rows at the end, and does not block. It copies fields, because rows have room for all metrics. A row with
// no field that the database stores is not added.
func (q *queue) put(rows []sink.Row) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, row := range rows {
		var some bool
		if row.Fields, some = q.stored(&row); !some {
			continue
		}
		size := sizeOf(&row)
		if q.bytes+size > q.limit {
			q.dropped++
			continue
		}
		q.rows = append(q.rows, row)
		q.bytes += size
		q.accepted++
	}
	q.news.Signal()
}

// stored returns a copy of those fields of a row that the database stores. It returns false if the row has fields but
// none of these.
func (q *queue) stored(row *sink.Row) (fields []sink.Field, some bool) {
	n := 0
	for i := range row.Fields {
		if q.stores(row.Measurement, &row.Fields[i]) {
			n++
		}
	}
	fields = make([]sink.Field, 0, n)
	for i := range row.Fields {
		if q.stores(row.Measurement, &row.Fields[i]) {
			fields = append(fields, row.Fields[i])
		}
	}
	return fields, n > 0 || len(row.Fields) == 0
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
	const rowBytes, fieldBytes, tagBytes, distributionBytes, bucketBytes = 144, 64, 32, 80, 8
	size := rowBytes + fieldBytes*len(row.Fields) + tagBytes*len(row.Tags)
	for i := range row.Fields {
		size += len(row.Fields[i].Text)
		if b := row.Fields[i].Buckets; b != nil {
			size += distributionBytes + bucketBytes*len(b.Buckets)
		}
	}
	return size
}
