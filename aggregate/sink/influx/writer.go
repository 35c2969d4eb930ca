package influx

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
)

// mostPoints bounds a request of a Writer: InfluxDB's makers advise 5,000.
const mostPoints = 5000

// DefaultPatience is how long a Writer goes on trying a server that fails: a new start takes less.
const DefaultPatience = time.Minute

// Writer writes points of a run that has ended, in bounded batches, each before the next. It is not safe for concurrent use.
type Writer struct {
	server   *server
	log      *slog.Logger
	patience time.Duration
	batch    []byte
	points   int // in batch

	written int   // points that the server has taken
	refused int   // points that it never will
	refusal error // why, of the first of them
}

// NewWriter returns a writer that gives up when the server has failed for so long. It does not ask whether the server is there: Check does.
// Close must be called.
func NewWriter(config Config, patience time.Duration) (*Writer, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Writer{server: newServer(config), log: config.Log, patience: patience}, nil
}

// Write adds rows to the batch, and sends it when it is full. An error means that the server cannot be written to, or that ctx has ended;
// what was sent stays.
func (w *Writer) Write(ctx context.Context, rows []sink.Row) error {
	for i := range rows {
		before := len(w.batch)
		lines, err := appendLine(w.batch, &rows[i])
		if err != nil {
			return fmt.Errorf("influx: %w", err)
		}
		w.batch = lines
		if len(w.batch) > before {
			w.points++
		}
		if w.points >= mostPoints || len(w.batch) >= mostBytes {
			if err := w.Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// Flush sends what is in the batch.
func (w *Writer) Flush(ctx context.Context) error {
	if err := w.deliver(ctx, w.batch); err != nil {
		return err
	}
	w.batch, w.points = w.batch[:0], 0
	return nil
}

// Spool sends what an earlier sink has left in its spool, and removes the file. Without one it does nothing.
func (w *Writer) Spool(ctx context.Context, path string) (sent int, err error) {
	s, err := openSpool(path)
	if err != nil {
		return 0, fmt.Errorf("influx: %w", err)
	}
	for !s.empty() {
		b, err := s.peek(mostEntries, mostBytes)
		if err == nil {
			err = w.deliver(ctx, b.lines)
		}
		if err == nil {
			err = s.take(b)
		}
		if err != nil {
			_ = s.close() // nothing was written to it
			return sent, err
		}
		sent += b.points
	}
	return sent, s.remove()
}

// Written is how many points the server has taken.
func (w *Writer) Written() int { return w.written }

// Refused is how many points the server will never take, and why it refused the first. They are in the ledger.
func (w *Writer) Refused() (points int, why error) { return w.refused, w.refusal }

// Close lets go of the connection. What is in the batch is not sent.
func (w *Writer) Close() { w.server.close() }

// deliver sends lines until the server has taken or refused each, or has failed for too long.
func (w *Writer) deliver(ctx context.Context, lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	err := w.persist(ctx, lines)
	switch {
	case err == nil:
		w.written += points(lines)
		return nil
	case !refusedForGood(err):
		return err
	case points(lines) > 1:
		// One line is at fault. The others must not suffer: halve until it is alone; those taken already are the same points.
		half := len(lines)/2 + bytes.IndexByte(lines[len(lines)/2:], '\n') + 1
		if half == len(lines) {
			half = bytes.LastIndexByte(lines[:len(lines)-1], '\n') + 1
		}
		if err := w.deliver(ctx, lines[:half]); err != nil {
			return err
		}
		return w.deliver(ctx, lines[half:])
	}
	w.refused++
	if w.refusal == nil {
		w.refusal = w.server.explain(err)
	}
	return nil
}

// persist sends lines until the server answers for good, or has failed for too long. It returns the server's refusal as it is.
func (w *Writer) persist(ctx context.Context, lines []byte) error {
	began, wait, said := time.Now(), firstWait, false
	for {
		err := w.server.write(ctx, string(lines))
		if err == nil || refusedForGood(err) {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if time.Since(began) >= w.patience {
			return w.server.explain(err)
		}
		if !said {
			w.log.Warn("InfluxDB cannot be written to; trying again", "for", w.patience, "error", w.server.explain(err))
			said = true
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, longestWait)
	}
}
