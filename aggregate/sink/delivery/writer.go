package delivery

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
)

// Bounds of one request. A database takes far more, but an answer should not take longer than a window. InfluxDB's
// documentation recommends 5,000 points.
const (
	maxPoints = 5000
	maxBytes  = 1 << 20
)

// Back-off after a failure: short enough that the live view is back soon after the database restarts, long enough not
// to burden the database.
const (
	firstWait   = 250 * time.Millisecond
	longestWait = 5 * time.Second
)

// DefaultPatience is how long a Writer retries a failing database: longer than a restart takes.
const DefaultPatience = time.Minute

// Writer writes points to a database in bounded requests, one after the other, and retries. It is not safe for
// concurrent use.
type Writer struct {
	db       Database
	log      *slog.Logger
	patience time.Duration
	ending   <-chan struct{} // until this is closed, the writer retries without an end

	batch   batch
	since   time.Time // of the first failure that counts towards patience; zero: none
	trouble string    // last failure logged; empty while writing works

	answered atomic.Bool // the database has taken or refused points

	written int   // points that the database has taken
	refused int   // points that the database will never take
	empty   int   // points that have nothing to store
	refusal error // why the database refused the first of them
}

// NewWriter returns a writer that stops retrying when the database has failed for patience.
func NewWriter(db Database, patience time.Duration, log *slog.Logger) *Writer {
	ending := make(chan struct{})
	close(ending)
	return &Writer{db: db, log: log, patience: patience, ending: ending}
}

// Write adds rows to the batch, and sends the batch when it is full. An error means that the database cannot be written
// to, or that ctx has ended; what was sent stays.
func (w *Writer) Write(ctx context.Context, rows []sink.Row) error {
	for i := range rows {
		switch added, err := w.batch.add(w.db, &rows[i]); {
		case err != nil:
			w.refuse(1, err)
		case !added:
			w.empty++
		case w.batch.full():
			if err := w.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush sends what is in the batch. Its error is that of Write.
func (w *Writer) Flush(ctx context.Context) error {
	if err := w.deliver(ctx, w.batch); err != nil {
		return err
	}
	w.batch = batch{body: w.batch.body[:0], sizes: w.batch.sizes[:0]}
	return nil
}

// Written returns how many points the database has taken.
func (w *Writer) Written() int { return w.written }

// Refused returns how many points the database will never take, and why it refused the first of them.
func (w *Writer) Refused() (points int, why error) { return w.refused, w.refusal }

// handled returns how many points need nothing more.
func (w *Writer) handled() int { return w.written + w.refused + w.empty }

// deliver sends a batch until the database has taken or refused each point.
func (w *Writer) deliver(ctx context.Context, b batch) error {
	if len(b.sizes) == 0 {
		return nil
	}
	err := w.persist(ctx, b.body)
	var refused *RefusedError
	switch {
	case err == nil:
		w.written += len(b.sizes)
		return nil
	case !errors.As(err, &refused):
		return err
	case refused.Points > 0 || len(b.sizes) == 1:
		n := min(max(refused.Points, 1), len(b.sizes))
		w.refuse(n, err)
		w.written += len(b.sizes) - n
		return nil
	}
	// One point is at fault. So that the others arrive, halve the batch until the point is alone; points that the
	// database already has are the same points.
	left, right := b.halves()
	if err := w.deliver(ctx, left); err != nil {
		return err
	}
	return w.deliver(ctx, right)
}

// refuse counts points that the database will never take. It logs only the first refusal.
func (w *Writer) refuse(points int, err error) {
	w.refused += points
	if w.refusal == nil {
		w.refusal = err
		w.log.Error("the database refuses points", "database", w.db.Name(), "error", err)
	}
}

// persist sends a request until the database takes or refuses it, or has failed for too long.
func (w *Writer) persist(ctx context.Context, body []byte) error {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		err := w.db.Send(ctx, body)
		if err == nil || errors.As(err, new(*RefusedError)) {
			w.works()
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if w.exhausted() {
			return err
		}
		w.fails(err)
		w.pause(ctx, wait)
	}
}

// exhausted reports whether the database has failed for longer than the writer's patience.
func (w *Writer) exhausted() bool {
	select {
	case <-w.ending:
	default:
		return false
	}
	if w.since.IsZero() {
		w.since = time.Now()
	}
	return time.Since(w.since) >= w.patience
}

// fails logs a failure, unless the last one was the same.
func (w *Writer) fails(err error) {
	if trouble := err.Error(); trouble != w.trouble {
		w.log.Warn("the database cannot be written to; trying again", "database", w.db.Name(), "error", trouble)
		w.trouble = trouble
	}
}

// works notes that the database answers, and logs that a failure is over.
func (w *Writer) works() {
	if w.trouble != "" {
		w.log.Info("the database can be written to again", "database", w.db.Name())
	}
	w.trouble, w.since = "", time.Time{}
	w.answered.Store(true)
}

// pause waits before the next attempt. The start of the end cuts it short.
func (w *Writer) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	ending := w.ending
	if !w.since.IsZero() {
		ending = nil // already ending
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-ending:
	}
}

// batch is the encoded rows of one request.
type batch struct {
	body  []byte
	sizes []int // size of each row's encoding
}

// add appends a row. It returns false if the row has nothing to store.
func (b *batch) add(db Database, row *sink.Row) (added bool, err error) {
	body, err := db.Append(b.body, row)
	if err != nil {
		return false, err
	}
	size := len(body) - len(b.body)
	b.body = body
	if size > 0 {
		b.sizes = append(b.sizes, size)
	}
	return size > 0, nil
}

func (b *batch) full() bool { return len(b.sizes) >= maxPoints || len(b.body) >= maxBytes }

// halves splits a batch of several rows.
func (b *batch) halves() (left, right batch) {
	half, cut := len(b.sizes)/2, 0
	for _, size := range b.sizes[:half] {
		cut += size
	}
	return batch{b.body[:cut], b.sizes[:half]}, batch{b.body[cut:], b.sizes[half:]}
}

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
