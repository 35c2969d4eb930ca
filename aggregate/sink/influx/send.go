package influx

import (
	"context"
	"time"
)

// Back-off after a failure: short enough that the live view is back soon after the server restarts, long enough not to
// burden the server.
const (
	firstWait   = 250 * time.Millisecond
	longestWait = 5 * time.Second
)

// send is the sender's goroutine: it sends the queue's entries to the server in order. It stops when the queue is empty
// after Close, when ctx ends, or when the spool cannot be read.
func (s *Sink) send(ctx context.Context) {
	defer close(s.done)
	wait := firstWait
	for ctx.Err() == nil {
		b, err := s.queue.peek(s.mostEntries(), mostBytes)
		if err != nil {
			s.broken = err
			s.log.Error("Points for InfluxDB cannot be read back from the spool", "error", err)
			return
		}
		if b.entries == 0 {
			if !s.more() {
				return
			}
			continue
		}
		if s.deliver(ctx, b) {
			wait = firstWait
			continue
		}
		s.pause(ctx, wait)
		wait = min(2*wait, longestWait)
	}
}

func (s *Sink) mostEntries() int {
	if s.careful > 0 {
		return 1
	}
	return mostEntries
}

// more waits for an entry. It returns false if the sink is closing and the queue is empty.
func (s *Sink) more() bool {
	select {
	case <-s.queue.wake:
		return true
	default:
	}
	select {
	case <-s.queue.wake:
		return true
	case <-s.closing:
		return s.queue.waiting() > 0
	}
}

// deliver sends a batch once. It returns true if send must continue with the next batch without a pause.
func (s *Sink) deliver(ctx context.Context, b batch) bool {
	err := s.server.write(ctx, string(b.lines))
	switch {
	case err == nil:
		s.well()
		s.finish(b)
		return true
	case !s.server.refused(ctx, err):
		if ctx.Err() == nil {
			s.fail(err)
		}
		return false
	case s.refusedSome(b, err):
		s.finish(b)
		return true
	case b.entries > 1:
		// One entry is at fault. So that the others arrive, send each alone; points that the server already has are the
		// same points.
		s.careful = b.entries
		return true
	default:
		s.refuse(b.points, err)
		s.finish(b)
		return true
	}
}

// refusedSome counts the points of a batch that a server says it dropped. It returns false if the server does not say.
func (s *Sink) refusedSome(b batch, err error) bool {
	n, said := dropped(err)
	if said {
		s.refuse(min(n, b.points), err)
	}
	return said
}

// finish removes a batch from the queue.
func (s *Sink) finish(b batch) {
	s.careful = max(0, s.careful-b.entries)
	if err := s.queue.take(b); err != nil {
		s.log.Warn("The spool of points for InfluxDB cannot be emptied", "error", err)
	}
}

// refuse counts points that the server will never take. It logs only the first refusal.
func (s *Sink) refuse(points int, err error) {
	s.refused += points
	if s.refusal == nil {
		s.refusal = s.server.explain(err)
		s.log.Error("InfluxDB refuses points", "error", s.refusal)
	}
}

// fail logs a failure, unless the last one was the same, and moves memory to the spool.
func (s *Sink) fail(err error) {
	trouble := s.server.explain(err).Error()
	if trouble != s.trouble {
		s.log.Warn("InfluxDB cannot be written to; points are kept and the run goes on", "error", trouble)
	}
	s.trouble = trouble
	s.queue.save()
}

// well logs that a failure is over.
func (s *Sink) well() {
	if s.trouble != "" {
		s.log.Info("InfluxDB can be written to again", "points_waiting", s.queue.waiting())
	}
	s.trouble = ""
}

// pause waits before the next attempt. Close ends one wait early.
func (s *Sink) pause(ctx context.Context, wait time.Duration) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	closing := s.closing
	if s.hurried {
		closing = nil
	}
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-closing:
		s.hurried = true
	}
}
