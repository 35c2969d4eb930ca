package influx

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
)

// mostPoints bounds a request of a Writer. InfluxDB's documentation recommends 5,000.
const mostPoints = 5000

// DefaultPatience is how long a Writer retries a failing server: longer than a restart takes.
const DefaultPatience = time.Minute

// Writer writes points of a run that has ended, in bounded batches, one after the other. It is not safe for concurrent
// use.
type Writer struct {
	server   *server
	log      *slog.Logger
	patience time.Duration
	batch    []byte
	points   int // in batch

	written int   // points that the server has taken
	refused int   // points that the server will never take
	refusal error // why the server refused the first of them

	spooling bool                // the lines being written come from a spool
	spooled  map[uint64]struct{} // points written from a spool, by identity
}

// NewWriter returns a writer that stops retrying when the server has failed for patience. It does not check whether the
// server answers; Check does. The caller must call Close.
func NewWriter(config Config, patience time.Duration) (*Writer, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = config.withDefaults()
	return &Writer{server: newServer(config), log: config.Log, patience: patience, spooled: map[uint64]struct{}{}}, nil
}

// Write adds rows to the batch, and sends the batch when it is full. An error means that a row cannot be expressed,
// that the server cannot be written to, or that ctx has ended; what was sent stays.
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

// Spool sends what an earlier sink has left in its spool, and removes the file. It does nothing if there is no file.
func (w *Writer) Spool(ctx context.Context, path string) (sent int, err error) {
	s, err := openSpool(path)
	if err != nil {
		return 0, fmt.Errorf("influx: %w", err)
	}
	w.spooling = true
	defer func() { w.spooling = false }()
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

// Written returns how many points the server has taken, each counted once.
func (w *Writer) Written() int { return w.written }

// Refused returns how many points the server will never take, and why it refused the first of them. The ledger has
// them.
func (w *Writer) Refused() (points int, why error) { return w.refused, w.refusal }

// Close closes the connection. It does not send the batch.
func (w *Writer) Close() { w.server.close() }

// deliver sends lines until the server has taken or refused each of them, or has failed for too long.
func (w *Writer) deliver(ctx context.Context, lines []byte) error {
	if len(lines) == 0 {
		return nil
	}
	refused, err := w.persist(ctx, lines)
	n, some := dropped(err)
	switch {
	case err == nil:
		w.took(lines, 0)
		return nil
	case !refused:
		return err
	case some:
		w.took(lines, n)
		w.refuse(n, err)
		return nil
	case points(lines) > 1:
		// One line is at fault. So that the others arrive, halve the lines until it is alone; points that the server
		// already has are the same points.
		half := len(lines)/2 + bytes.IndexByte(lines[len(lines)/2:], '\n') + 1
		if half == len(lines) {
			half = bytes.LastIndexByte(lines[:len(lines)-1], '\n') + 1
		}
		if err := w.deliver(ctx, lines[:half]); err != nil {
			return err
		}
		return w.deliver(ctx, lines[half:])
	}
	w.refuse(1, err)
	return nil
}

// took counts the points in lines that the server took: all except but. A point that was written from a spool and comes
// again from the ledger counts once.
func (w *Writer) took(lines []byte, but int) {
	for line := range bytes.Lines(lines) {
		id := identity(line)
		if _, again := w.spooled[id]; again {
			continue
		}
		if w.spooling {
			w.spooled[id] = struct{}{}
		}
		w.written++
	}
	w.written -= but
}

// identity returns a hash of what identifies a line's point: measurement, tags and time.
func identity(line []byte) uint64 {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	name := 0
	for name < len(line) && line[name] != ' ' {
		if line[name] == '\\' {
			name++ // skip the escaped character too
		}
		name++
	}
	h := fnv.New64a()
	_, _ = h.Write(line[:min(name, len(line))]) // a hash never returns an error
	_, _ = h.Write(line[bytes.LastIndexByte(line, ' ')+1:])
	return h.Sum64()
}

// refuse counts points that the server will never take.
func (w *Writer) refuse(points int, err error) {
	w.refused += points
	if w.refusal == nil {
		w.refusal = w.server.explain(err)
	}
}

// persist sends lines until the server takes or refuses them, or has failed for too long. It returns the server's
// refusal unchanged, and whether the error is a refusal.
func (w *Writer) persist(ctx context.Context, lines []byte) (refused bool, err error) {
	began, wait, said := time.Now(), firstWait, false
	for {
		err := w.server.write(ctx, string(lines))
		if err == nil || w.server.refused(ctx, err) {
			return err != nil, err
		}
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if time.Since(began) >= w.patience {
			return false, w.server.explain(err)
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
