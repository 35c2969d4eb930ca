// Package delivery passes points on to databases: several databases a run, each with its own queue, back-off, counts of
// lost points and end.
//
// A database is what differs between sinks: its encoding and its send (Database). A Sink writes during a run. Its queue
// is in memory and bounded, so that a database that is slow, down or restarting does not delay the run. Points that do
// not fit, or that a killed coordinator had not sent, are written from the ledger when the run has ended. A Writer
// writes the points of a run that has ended, and waits for the database instead.
package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spate-load/spate/aggregate/sink"
)

// DefaultQueueBytes bounds the queue of each database. It is enough for about half an hour of three agents' windows,
// and for about 15 s of a thousand agents'.
const DefaultQueueBytes = 128 << 20

// closePatience is how long a failing database is retried once the run has ended.
const closePatience = 15 * time.Second

// strangerPatience is how long one is waited for that has neither taken nor refused any: its URL is probably wrong.
const strangerPatience = 3 * time.Second

var errTookNone = errors.New("it never took any")

// chunk is how many rows a goroutine takes from its queue at once.
const chunk = 1000

// Config configures the sink of a run.
type Config struct {
	// RunDir is the run's directory. In it, a file for each database exists while the database may lack points.
	RunDir string
	// Replay emits all points of the run from its ledger, and stops at the first error of emit. It returns false, and
	// emits nothing, if the run has not ended. Close calls it if points were not delivered.
	Replay func(emit func([]sink.Row) error) (ended bool, err error)
	// QueueBytes bounds each queue in memory. 0: DefaultQueueBytes.
	QueueBytes int
	// Told has, by kind of database, failures that Log has already got.
	Told map[string]string
	// Log gets a message when writing starts to fail and when it works again.
	Log *slog.Logger
}

// Sink writes a run's points to databases. A slow or failing database does not affect the others.
type Sink struct {
	boxes   []*outbox
	closing chan struct{}
}

var _ sink.Sink = (*Sink)(nil)

// Open returns a sink that writes to databases, and starts a goroutine for each. The caller must call Close, and closes
// the databases after that. If an earlier process of the run did not deliver everything, Close does.
func Open(config Config, databases ...Database) (*Sink, error) {
	config.QueueBytes = cmp.Or(config.QueueBytes, DefaultQueueBytes)
	s := &Sink{closing: make(chan struct{})}
	for _, db := range databases {
		resumed, err := mark(config.RunDir, db.Kind())
		if err != nil {
			return nil, errors.Join(fmt.Errorf("note that %s may be incomplete: %w", db.Name(), err),
				s.Close(context.Background()))
		}
		s.boxes = append(s.boxes, newOutbox(config, db, resumed, s.closing))
	}
	return s, nil
}

// Put queues a point.
func (s *Sink) Put(p sink.Point) {
	rows := p.Rows()
	for _, o := range s.boxes {
		o.queue.put(rows)
	}
}

// Close sends what is left, for as long as the databases take it and ctx lasts. A database that fails is retried for
// 15 s, or 3 s if it took none yet. If points were dropped, or if an earlier process did not send all, Close then
// writes the points of the whole run from the ledger, if the run has ended. Its error joins an UndeliveredError for
// each database that is incomplete.
func (s *Sink) Close(ctx context.Context) error {
	close(s.closing)
	errs := make([]error, len(s.boxes))
	var all sync.WaitGroup
	for i, o := range s.boxes {
		all.Go(func() { errs[i] = o.finish(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// outbox passes points on to one database.
type outbox struct {
	config  Config
	db      Database
	queue   *queue
	resumed bool // an earlier process of the run did not send everything

	stop context.CancelCauseFunc // stops the goroutine
	done chan struct{}           // closed when the goroutine has ended

	// Only the goroutine uses these fields until done is closed.
	writer *Writer
	err    error // why the goroutine stopped before the queue was empty
}

func newOutbox(config Config, db Database, resumed bool, closing <-chan struct{}) *outbox {
	ctx, stop := context.WithCancelCause(context.Background())
	o := &outbox{
		config: config, db: db, queue: newQueue(config.QueueBytes, db.Stores), resumed: resumed, stop: stop,
		done: make(chan struct{}),
		writer: &Writer{db: db, log: config.Log, patience: closePatience, ending: closing,
			trouble: config.Told[db.Kind()]},
	}
	go o.send(ctx)
	return o
}

// send writes the rows of the queue, until the queue is closed and empty, or writing fails for too long after that.
func (o *outbox) send(ctx context.Context) {
	defer close(o.done)
	for rows := o.queue.take(chunk); len(rows) > 0; rows = o.queue.take(chunk) {
		if o.err = o.writer.Write(ctx, rows); o.err == nil {
			o.err = o.writer.Flush(ctx) // until the database has taken or refused them
		}
		if o.err != nil {
			return
		}
	}
}

// finish waits until the queue is sent, and then writes what is missing from the ledger.
func (o *outbox) finish(ctx context.Context) error {
	defer o.stop(nil)
	o.queue.close()
	defer context.AfterFunc(ctx, func() { o.stop(nil) })()
	defer time.AfterFunc(strangerPatience, func() {
		if !o.writer.answered.Load() {
			o.stop(errTookNone)
		}
	}).Stop()
	<-o.done
	accepted, dropped := o.queue.counts()
	unsent := accepted + dropped - o.writer.handled()
	if o.err != nil || dropped == 0 && !o.resumed {
		return o.conclude(unsent, o.err)
	}
	switch ended, err := o.replay(ctx); {
	case err != nil:
		return o.conclude(unsent, err)
	case ended:
		return o.conclude(0, nil)
	case dropped > 0:
		return o.conclude(dropped, errors.New("the run has not ended"))
	}
	return nil // the process that resumes the run writes it from the ledger
}

// replay writes the points of the whole run from its ledger, if the run has ended.
func (o *outbox) replay(ctx context.Context) (ended bool, err error) {
	o.config.Log.Info("the database may lack points; writing the run from its ledger", "database", o.db.Name())
	o.writer.refused, o.writer.refusal = 0, nil // they come again
	ended, err = o.config.Replay(func(rows []sink.Row) error { return o.writer.Write(ctx, rows) })
	if err != nil {
		return ended, err
	}
	return ended, o.writer.Flush(ctx)
}

// conclude returns an UndeliveredError, or notes that the database is complete. Refused points stay refused, so nothing
// waits for them.
func (o *outbox) conclude(unsent int, err error) error {
	refused, refusal := o.writer.Refused()
	if err == nil {
		err = Complete(o.config.RunDir, o.db.Kind())
	}
	if err == nil && unsent+refused == 0 {
		return nil
	}
	return &UndeliveredError{
		Name: o.db.Name(), RunDir: o.config.RunDir, Unsent: unsent, Refused: refused, Err: errors.Join(err, refusal),
	}
}

// markSuffix is the suffix of a file in a run directory that exists while a database may lack points of the run. The
// file's name without it is the kind of the database.
const markSuffix = ".incomplete"

// markText is what a person reads in the file.
const markText = "The database may lack points of this run. The end of the run removes this file, or spate runs export.\n"

func markPath(runDir, kind string) string { return filepath.Join(runDir, kind+markSuffix) }

// mark notes that a database may lack points of a run. It reports whether this was already noted: then an earlier
// process ended before it had sent everything.
func mark(runDir, kind string) (already bool, err error) {
	file, err := os.OpenFile(markPath(runDir, kind), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	_, err = file.WriteString(markText)
	return false, errors.Join(err, file.Close())
}

// Complete notes that the databases of a kind have all points of a run.
func Complete(runDir, kind string) error {
	if err := os.Remove(markPath(runDir, kind)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Incomplete reports whether a database may lack points of a run, so that the run directory is still needed. It also
// returns true if the directory exists but cannot be read.
func Incomplete(runDir string) bool {
	entries, err := os.ReadDir(runDir)
	return err != nil && !errors.Is(err, fs.ErrNotExist) ||
		slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return strings.HasSuffix(e.Name(), markSuffix) })
}

// Database is a database that points are written to. Its methods may be called concurrently, except Close.
type Database interface {
	// Kind identifies the kind of database in flags, commands and file names: "influx".
	Kind() string
	// Name is the name of the kind in messages: "InfluxDB".
	Name() string
	// Place is where points are, in messages: "http://localhost:8086, bucket spate". It contains no secret.
	Place() string
	// Stores reports whether the database stores a field of a measurement's rows. Other fields are not queued.
	Stores(measurement string, field *sink.Field) bool
	// Append appends the encoding of a row to dst. Encodings can be concatenated. It appends nothing for a row that has
	// nothing to store. The row may have fields that the database does not store. An error means that the row cannot be
	// expressed.
	Append(dst []byte, row *sink.Row) ([]byte, error)
	// Send sends encoded rows once, in one request, and blocks until the database has answered or a time-out. The error
	// wraps a RefusedError if sending the same again is useless. Otherwise the rows are sent again. Errors say what a
	// person can do, and contain no secret.
	Send(ctx context.Context, body []byte) error
	// Check returns an error if points would not be taken. It writes no points, and blocks for one time-out at most.
	Check(ctx context.Context) error
	// Close closes the connection.
	Close()
}

// RefusedError means that a database will never take a request as it is, because of at least one row.
type RefusedError struct {
	// Points is how many points the database dropped, if it says so and took the others. 0: it does not say. The others
	// are then sent again without the refused ones.
	Points int
	// Err is what the database said.
	Err error
}

// Error returns what the database said.
func (e *RefusedError) Error() string { return e.Err.Error() }

// Unwrap returns what the database said.
func (e *RefusedError) Unwrap() error { return e.Err }

// UndeliveredError counts the points that a database did not get.
type UndeliveredError struct {
	// Name is the database's.
	Name string
	// RunDir is the run's directory, whose ledger has the points.
	RunDir string
	// Unsent is the number of points that were not sent: the database did not take them in time, or the queue was full.
	Unsent int
	// Refused is the number of points that the database will never take.
	Refused int
	// Err is why. May be nil.
	Err error
}

// Error returns a message that says what to do.
func (u *UndeliveredError) Error() string {
	text := u.Name + " is incomplete"
	if u.Err != nil {
		text += " (" + u.Err.Error() + ")"
	}
	text += ":"
	if u.Unsent > 0 {
		text += fmt.Sprintf(" %d points were not sent;", u.Unsent)
	}
	if u.Refused > 0 {
		text += fmt.Sprintf(" %d points were refused;", u.Refused)
	}
	text += " the ledger has every number"
	if u.Unsent > 0 {
		text += fmt.Sprintf(", and `spate runs export %s` writes them", u.RunDir)
	}
	return text
}

// Unwrap returns why.
func (u *UndeliveredError) Unwrap() error { return u.Err }
