// Package ledger keeps a run on disk: every snapshot once, written before its arrival is acknowledged, and every
// decision about the run.
//
// A Ledger is one file with one writer. Each record has a checksum, and opening a ledger verifies all of them. The
// error for a damaged ledger says which kinds of records are damaged or missing, and how many. This package does not
// interpret the numbers of snapshots.
package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Errors that callers branch on.
var (
	// ErrConflict means that the ledger has a snapshot with the same key but different content.
	ErrConflict = errors.New("the ledger has another snapshot of this key")
	// ErrClosed means that the ledger is closed.
	ErrClosed = errors.New("the ledger is closed")
	// ErrLocked means that another process has the ledger open.
	ErrLocked = errors.New("the ledger is in use by another process: wait until its run has ended, or stop it")
	// ErrForeign means that a file is not a ledger, or not one that this program can read.
	ErrForeign = errors.New("not a ledger that this program can read")
	// ErrDamaged means that a file is a ledger with missing or damaged content. The error that wraps it is a
	// DamageError.
	ErrDamaged = errors.New("the ledger is damaged")
)

// File is the name of the ledger's file in a run directory.
const File = "ledger.db"

// ledgerVersion is the version of the file's layout. Values are messages of the protocol. The versions:
//
//	1  buckets meta (format, version, run), stages (index) and snapshots (stage, agent, incarnation, sequence)
//	2  meta also has submission and checkpoint; bucket events (number) has the run's events except progress; bucket
//	   arrivals (number) has the snapshots in the order of arrival, and bucket snapshots their numbers there
//	3  each record ends in a checksum; bucket inventory (bucket) has the number of records and the sum of their
//	   checksums
//	4  meta has definitions, the version of what the numbers mean
//	5  the run's record has one list of what searches, frontiers and sweeps found
//	6  bucket snapshots is sorted by stage, sequence, agent and incarnation
const ledgerVersion = 6

// lockTimeout is how long to wait for another process to release the file: long enough for a process that is about to
// exit.
const lockTimeout = time.Second

// Names of buckets and keys in the file.
var (
	metaBucket     = []byte("meta")
	stagesBucket   = []byte("stages")
	snapshotBucket = []byte("snapshots")
	arrivalBucket  = []byte("arrivals")
	eventsBucket   = []byte("events")

	inventoryBucket = []byte("inventory")
	// recordBuckets are those whose records the inventory counts.
	recordBuckets = [][]byte{metaBucket, stagesBucket, snapshotBucket, arrivalBucket, eventsBucket}

	formatKey     = []byte("format")
	versionKey    = []byte("version")
	runKey        = []byte("run")
	submissionKey = []byte("submission")
	checkpointKey = []byte("checkpoint")

	formatName = []byte("spate-ledger")

	definitionsKey = []byte("definitions")
)

// Ledger is the file that holds a run: its records, the state of its state machine, its events, and each snapshot once.
// The file stays consistent if the process dies at any time. All methods except Close may be called concurrently.
type Ledger struct {
	db       *bbolt.DB
	failures *failures
	// shallow: the snapshots were not verified, so they cannot be read.
	shallow bool

	mu      sync.Mutex
	waiting []*pendingBatch
	closed  bool
	wake    chan struct{} // 1 deep, sent to under mu; closed by Close
	done    chan struct{} // closed by the writer when it has ended
}

// Create creates the ledger of a new run with its first records, and opens it. The file must not exist. It gets its
// name only when it is complete, so a process killed during Create leaves no ledger. The caller closes the ledger.
func Create(path string, first Change) (*Ledger, error) {
	l, err := create(path, first)
	if err != nil {
		return nil, fmt.Errorf("create ledger %s: %w", path, err)
	}
	return l, nil
}

func create(path string, first Change) (*Ledger, error) {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return nil, &os.PathError{Op: "create", Path: path, Err: os.ErrExist}
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	unnamed := path + ".new"
	if err := os.Remove(unnamed); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	err := layOut(unnamed, first)
	if err == nil {
		err = os.Rename(unnamed, path)
	}
	if err != nil {
		_ = os.Remove(unnamed) // the next Create would remove it too
		return nil, err
	}
	return open(path, false, lockTimeout, openExisting)
}

// layOut creates a ledger's file, which must not exist, and closes it.
func layOut(path string, first Change) error {
	l, err := open(path, false, lockTimeout, func(path string, flag int, mode os.FileMode) (*os.File, error) {
		return os.OpenFile(path, flag|os.O_EXCL, mode)
	})
	if err != nil {
		return err
	}
	return errors.Join(l.change(func(tx *bbolt.Tx) error { return initialise(tx, first) }), l.Close())
}

// Open opens the ledger of a run for writing. It first reads the whole file to verify it. The caller closes the ledger.
// Open returns the same errors as OpenReadOnly.
func Open(path string) (*Ledger, error) {
	seen, err := OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	if err := seen.Close(); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	l, err := open(path, false, lockTimeout, openExisting)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	return l, nil
}

// OpenReadOnly opens a ledger for reading. It first reads the whole file to verify it. Append and Put fail. The caller
// closes the ledger. The error is ErrLocked, ErrForeign, a DamageError that names what is lost, or the reason why the
// file cannot be opened.
func OpenReadOnly(path string) (*Ledger, error) { return openVerified(path, lockTimeout, true) }

// openVerified opens a ledger for reading. Unless deep, it does not verify the snapshots, and they cannot be read.
func openVerified(path string, patience time.Duration, deep bool) (*Ledger, error) {
	l, err := open(path, true, patience, openExisting)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	if err := guarded(func() error { return verify(path, deep) }); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, err), l.Close())
	}
	l.shallow = !deep
	return l, nil
}

// openExisting opens a file for the store, but never creates one. It checks that the first two pages exist, because
// without them the store ends the process.
func openExisting(path string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	w, err := newWalk(f)
	switch {
	case errors.Is(err, errNoStore):
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	case err == nil && w.length < 2*w.size:
		err = &DamageError{Lost: w.faults}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// open opens the file and starts the writer. If another process has the file open, it waits for at most patience.
func open(
	path string, readOnly bool, patience time.Duration, openFile func(string, int, os.FileMode) (*os.File, error),
) (*Ledger, error) {
	var db *bbolt.DB
	onFailure := &failures{DefaultLogger: &bbolt.DefaultLogger{Logger: log.New(io.Discard, "", 0)}}
	err := guarded(func() (err error) {
		db, err = bbolt.Open(path, 0o644, &bbolt.Options{
			Timeout:        patience,
			ReadOnly:       readOnly,
			OpenFile:       openFile,
			NoFreelistSync: true, // opening the file rebuilds the list; writing it with each batch costs more
			FreelistType:   bbolt.FreelistMapType,
			Logger:         onFailure,
		})
		return err
	})
	if err != nil {
		return nil, openError(err)
	}
	l := &Ledger{db: db, failures: onFailure, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.write()
	return l, nil
}

// openError translates the errors of the store that a person can act on.
func openError(err error) error {
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return ErrLocked
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrVersionMismatch),
		errors.Is(err, bbolterrors.ErrChecksum):
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return err
}

// initialise creates the buckets of a new file and writes its first records.
func initialise(tx *bbolt.Tx, first Change) error {
	for _, name := range append(recordBuckets, inventoryBucket) {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	if err := tx.Bucket(metaBucket).Put(formatKey, formatName); err != nil {
		return err
	}
	k := writerOf(tx)
	for _, name := range recordBuckets {
		k.holdings[string(name)] = bucketSum{}
	}
	if err := k.put(metaBucket, versionKey, binary.BigEndian.AppendUint32(nil, ledgerVersion)); err != nil {
		return err
	}
	if err := k.put(metaBucket, definitionsKey, binary.BigEndian.AppendUint32(nil, measure.Definitions)); err != nil {
		return err
	}
	if err := first.write(k); err != nil {
		return err
	}
	return k.close()
}

// Close writes the waiting batches and closes the file. It blocks until both are done. A second call does nothing.
func (l *Ledger) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.wake)
	}
	l.mu.Unlock()
	<-l.done
	return l.db.Close()
}

// update runs fn in one durable write transaction. what names the content in errors.
func (l *Ledger) update(what string, fn func(*recordWriter) error) error {
	err := l.change(func(tx *bbolt.Tx) error {
		k := writerOf(tx)
		if err := fn(k); err != nil {
			return err
		}
		return k.close()
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// change runs fn in one durable write transaction. After a panic or a failed write the store itself looks for free
// pages in the whole file, on a goroutine of its own: if the file is shorter than it was, or the disk is gone, that
// ends the process. Without the search, pages of a failed write are not used again until the next Open.
func (l *Ledger) change(fn func(*bbolt.Tx) error) error {
	var tx *bbolt.Tx
	err := guarded(func() (err error) {
		if tx, err = l.db.Begin(true); err != nil {
			return err
		}
		if err := fn(tx); err != nil {
			return err
		}
		l.failures.end.Store(true)
		defer l.failures.end.Store(false)
		return tx.Commit()
	})
	if err != nil && tx != nil {
		_ = guarded(tx.Rollback) // fails if it was rolled back
	}
	return err
}

// putMessage stores a message under a key.
func (k *recordWriter) putMessage(bucket, key []byte, m proto.Message) error {
	content, err := deterministic.Marshal(m)
	if err != nil {
		return err
	}
	return k.put(bucket, key, content)
}

// deterministic gives equal messages equal bytes, so that a snapshot sent twice is recognized without decoding.
var deterministic = proto.MarshalOptions{Deterministic: true}

// Peek opens a ledger, calls fn to read its records and events, and closes the ledger. fn cannot read snapshots: Peek
// does not verify them, because they are nearly all of the file. Peek does not wait for a process that is writing the
// ledger, but returns ErrLocked at once. Append and Put fail. The error is that of fn, or one of OpenReadOnly's.
func Peek(path string, fn func(*Ledger) error) (err error) {
	l, err := openVerified(path, time.Millisecond, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }() // even if fn panics, so that the ledger is not left locked
	return fn(l)
}

// Holds reports whether a ledger is that of a run and has a snapshot of a stage under a key. It verifies none of the
// file, so it takes as long for a large ledger as for a small one. Like Peek it does not wait for a writer.
func Holds(path, run string, stage uint32, k *spatev1.SnapshotKey) (found bool, err error) {
	l, err := open(path, true, time.Millisecond, openExisting)
	if err != nil {
		return false, fmt.Errorf("open ledger %s: %w", path, err)
	}
	l.shallow = true
	defer func() { err = errors.Join(err, l.Close()) }()
	if record, err := l.Run(); err != nil || record.GetRunId() != run {
		return false, err
	}
	return l.Has(stage, k)
}
