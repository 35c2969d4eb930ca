// Package influx writes merged results to servers with InfluxDB's v2 write API: InfluxDB 2, 1.8 and 3, and
// VictoriaMetrics.
//
// A Sink writes during a run: points pass through a queue that is bounded in memory and continues in a file, so that a
// server that is slow, down or restarting costs the run neither time nor points. A Writer writes a run that has ended,
// and waits for the server instead. Every point has fixed tags and a time that depends on the run alone, so a point
// that is sent twice is the same point. The commands create Sinks and Writers; nothing here reads results back.
package influx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/spate-load/spate/aggregate/sink"
)

// Bounds of one request. A server accepts far more, but an answer should not take longer than a window.
const (
	mostBytes   = 1 << 20
	mostEntries = 1000
)

// Sink writes points to one bucket. It is a sink.Sink.
type Sink struct {
	config Config
	log    *slog.Logger
	server *server
	queue  *queue
	odd    atomic.Int64 // points that line protocol cannot express

	closing chan struct{}      // closed by Close: send what is left, then stop
	cancel  context.CancelFunc // called by Close: stop at once
	done    chan struct{}      // closed by the sender when it stops

	// Only the sender uses these fields until done is closed.
	trouble string // last failure logged; empty while writing works
	hurried bool   // Close has already ended one wait early
	careful int    // number of entries to send one by one, because one of them is refused
	refused int    // points that the server refused for good
	refusal error  // why it refused the first of them
	broken  error  // why the spool cannot be read
}

var _ sink.Sink = (*Sink)(nil)

// New returns a sink and starts its sender. It does not check whether the server answers; Check does. The caller must
// call Close.
func New(config Config) (*Sink, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if config.Spool == "" {
		return nil, errors.New("influx: no spool: give a file in the run's directory")
	}
	config = config.withDefaults()
	kept, err := openSpool(config.Spool)
	if err != nil {
		return nil, fmt.Errorf("influx: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sink{
		config:  config,
		log:     config.Log,
		server:  newServer(config),
		queue:   newQueue(config.QueueBytes, kept),
		closing: make(chan struct{}),
		cancel:  cancel,
		done:    make(chan struct{}),
	}
	go s.send(ctx)
	return s, nil
}

// Window queues a window.
func (s *Sink) Window(p sink.WindowPoint) { s.put(p.Rows()) }

// Stage queues a stage's result.
func (s *Sink) Stage(p sink.StagePoint) { s.put(p.Rows()) }

// Event queues an event.
func (s *Sink) Event(p sink.EventPoint) { s.put(p.Rows()) }

// Agent queues the state of an agent.
func (s *Sink) Agent(p sink.AgentPoint) { s.put(p.Rows()) }

// Server queues a value of a server's metrics.
func (s *Sink) Server(p sink.ServerPoint) { s.put(p.Rows()) }

func (s *Sink) put(rows []sink.Row) {
	var lines []byte
	for i := range rows {
		var err error
		if lines, err = appendLine(lines, &rows[i]); err != nil {
			s.odd.Add(1)
			s.log.Error("A point cannot be written to InfluxDB", "error", err)
		}
	}
	if len(lines) > 0 {
		s.queue.put(lines)
	}
}

// Close sends what is left until ctx ends, and leaves the rest in the spool. Its error wraps an *UndeliveredError, an
// error of the disk, or both.
func (s *Sink) Close(ctx context.Context) error {
	close(s.closing)
	select {
	case <-s.done:
	case <-ctx.Done():
		s.cancel()
		<-s.done
	}
	s.cancel()
	s.server.close()
	kept, err := s.queue.close()
	return errors.Join(s.undelivered(kept), err)
}

// undelivered returns an *UndeliveredError, or nil if nothing is missing. kept is the number of points in the spool.
func (s *Sink) undelivered(kept int) error {
	u := &UndeliveredError{
		URL:     s.config.URL,
		Kept:    kept,
		Spool:   s.config.Spool,
		Refused: s.refused + int(s.odd.Load()),
		Lost:    s.queue.lost,
		Causes:  errors.Join(s.refusal, s.queue.cause, s.broken),
	}
	if u.Kept+u.Refused+u.Lost == 0 {
		return nil
	}
	if kept > 0 && s.trouble != "" {
		u.Causes = errors.Join(errors.New(s.trouble), u.Causes)
	}
	return u
}

// UndeliveredError counts the points that InfluxDB did not get.
type UndeliveredError struct {
	// URL is the server's base URL.
	URL string
	// Kept is the number of points that are in the spool and can still be sent.
	Kept int
	// Spool is the file of the kept points.
	Spool string
	// Refused is the number of points that the server will never take.
	Refused int
	// Lost is the number of points for which there was no room in memory or on disk.
	Lost int
	// Causes are the errors behind the counts. May be nil.
	Causes error
}

// Error returns a message for people.
func (u *UndeliveredError) Error() string {
	text := fmt.Sprintf("InfluxDB at %s is incomplete:", u.URL)
	if u.Kept > 0 {
		text += fmt.Sprintf(" %d points are kept in %s;", u.Kept, u.Spool)
	}
	if u.Refused > 0 {
		text += fmt.Sprintf(" %d points were refused;", u.Refused)
	}
	if u.Lost > 0 {
		text += fmt.Sprintf(" %d points were lost for want of disk space;", u.Lost)
	}
	text += " the ledger has every number"
	if u.Causes != nil {
		text += ": " + u.Causes.Error()
	}
	return text
}

// Unwrap returns the causes.
func (u *UndeliveredError) Unwrap() error { return u.Causes }
