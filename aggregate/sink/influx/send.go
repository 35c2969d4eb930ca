package influx

import (
	"context"
	"time"
)

// Back-off after a failure: soon enough that a restarted server has the live view back at once, seldom enough not to
// hinder it.
const (
	firstWait   = 250 * time.Millisecond
	longestWait = 5 * time.Second
)

// send takes the queue's head to the server, in order, until Close and an empty queue, or until ctx ends. It runs
// alone.
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

// more waits for an entry. False: the sink is closing and there is none.
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

// deliver sends a batch once. True: go on with the next at once.
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
		// One entry is at fault. The others must not suffer: send each alone; those taken already are the same points.
		s.careful = b.entries
		return true
	default:
		s.refuse(b.points, err)
		s.finish(b)
		return true
	}
}

// refusedSome counts what a server says that it left out of a batch. It reports false if the server does not say.
func (s *Sink) refusedSome(b batch, err error) bool {
	n, said := dropped(err)
	if said {
		s.refuse(min(n, b.points), err)
	}
	return said
}

// finish removes a batch that needs no more.
func (s *Sink) finish(b batch) {
	s.careful = max(0, s.careful-b.entries)
	if err := s.queue.take(b); err != nil {
		s.log.Warn("The spool of points for InfluxDB cannot be emptied", "error", err)
	}
}

// refuse counts points that the server will never take. Only the first is logged.
func (s *Sink) refuse(points int, err error) {
	s.refused += points
	if s.refusal == nil {
		s.refusal = s.server.explain(err)
		s.log.Error("InfluxDB refuses points", "error", s.refusal)
	}
}

// fail logs each distinct failure once.
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

// pause waits before the next attempt. Close cuts one wait short.
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
