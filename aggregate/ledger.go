package aggregate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Errors to act on.
var (
	// ErrConflict says that a snapshot has the key of another one in the ledger, but not its content.
	ErrConflict = errors.New("the ledger has another snapshot of this key")
	// ErrClosed says that the ledger was closed.
	ErrClosed = errors.New("the ledger is closed")
	// ErrLocked says that another process has the ledger open.
	ErrLocked = errors.New("the ledger is in use by another process: wait until its run has ended, or stop it")
	// ErrForeign says that a file is no ledger, or not one that this program can read.
	ErrForeign = errors.New("not a ledger that this program can read")
)

// ledgerVersion counts the layouts of the file; values are the protocol's messages.
//
//	1  buckets meta (format, version, run), stages (index) and snapshots (stage, agent, incarnation, sequence)
//	2  bucket arrivals (number, from 1) has the snapshots in the order they came; in snapshots are these numbers
const ledgerVersion = 2

// lockTimeout is how long to wait for another process to let go of the file: enough for one that is just ending.
const lockTimeout = time.Second

// Names in the file.
var (
	metaBucket     = []byte("meta")
	stagesBucket   = []byte("stages")
	snapshotBucket = []byte("snapshots")
	arrivalBucket  = []byte("arrivals")
	formatKey      = []byte("format")
	versionKey     = []byte("version")
	runKey         = []byte("run")
	formatName     = []byte("spate-ledger")
)

// Ledger is the file that holds a run: its record, its stages' records, and each snapshot once. It survives the death of the
// process at any time. All methods but Close may be called concurrently.
type Ledger struct {
	db *bbolt.DB

	mu      sync.Mutex
	waiting []*pendingBatch
	closed  bool
	wake    chan struct{} // 1 deep, sent to under mu; closed by Close
	done    chan struct{} // closed by the writer when it has ended
}

// Create makes the ledger of a new run. The file must not exist. The caller closes the ledger.
func Create(path string, run *spatev1.RunRecord) (*Ledger, error) {
	l, err := open(path, false, func(path string, flag int, mode os.FileMode) (*os.File, error) {
		return os.OpenFile(path, flag|os.O_EXCL, mode)
	})
	if err != nil {
		return nil, fmt.Errorf("create ledger %s: %w", path, err)
	}
	if err := l.db.Update(func(tx *bbolt.Tx) error { return initialise(tx, run) }); err != nil {
		return nil, errors.Join(fmt.Errorf("create ledger %s: %w", path, err), l.Close())
	}
	return l, nil
}

// Open opens the ledger of a run to go on with it. The caller closes it.
func Open(path string) (*Ledger, error) {
	// A file that was cut short would fault the process when its freelist is looked for, so it is inspected first.
	seen, err := OpenReadOnly(path)
	if err != nil {
		return nil, err
	}
	if err := seen.Close(); err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	l, err := open(path, false, openExisting)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	return l, nil
}

// OpenReadOnly opens a ledger to read it. Append, PutRun and PutStage fail on it. The caller closes it.
func OpenReadOnly(path string) (*Ledger, error) {
	l, err := open(path, true, openExisting)
	if err != nil {
		return nil, fmt.Errorf("open ledger %s: %w", path, err)
	}
	if err := l.db.View(inspect); err != nil {
		return nil, errors.Join(fmt.Errorf("open ledger %s: %w", path, err), l.Close())
	}
	return l, nil
}

// openExisting never makes a file.
func openExisting(path string, flag int, mode os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag&^os.O_CREATE, mode)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || info.Size() == 0 {
		return nil, errors.Join(err, fmt.Errorf("the file is empty: %w", ErrForeign), f.Close())
	}
	return f, nil
}

// open opens the file and starts the writer.
func open(path string, readOnly bool, openFile func(string, int, os.FileMode) (*os.File, error)) (*Ledger, error) {
	db, err := bbolt.Open(path, 0o644, &bbolt.Options{
		Timeout:        lockTimeout,
		ReadOnly:       readOnly,
		OpenFile:       openFile,
		NoFreelistSync: true, // the list is found again on open; writing it with each batch costs more
		FreelistType:   bbolt.FreelistMapType,
	})
	if err != nil {
		return nil, openError(err)
	}
	l := &Ledger{db: db, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.write()
	return l, nil
}

// openError names the errors of the store that a person can act on.
func openError(err error) error {
	switch {
	case errors.Is(err, bbolterrors.ErrTimeout):
		return ErrLocked
	case errors.Is(err, bbolterrors.ErrInvalid), errors.Is(err, bbolterrors.ErrVersionMismatch), errors.Is(err, bbolterrors.ErrChecksum):
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return err
}

// initialise lays out a new file.
func initialise(tx *bbolt.Tx, run *spatev1.RunRecord) error {
	for _, name := range [][]byte{metaBucket, stagesBucket, snapshotBucket, arrivalBucket} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	meta := tx.Bucket(metaBucket)
	if err := meta.Put(formatKey, formatName); err != nil {
		return err
	}
	if err := meta.Put(versionKey, binary.BigEndian.AppendUint32(nil, ledgerVersion)); err != nil {
		return err
	}
	return putMessage(meta, runKey, run)
}

// inspect tells a whole ledger of this version from anything else.
func inspect(tx *bbolt.Tx) error {
	info, err := os.Stat(tx.DB().Path())
	if err != nil {
		return err
	}
	if info.Size() < tx.Size() {
		return fmt.Errorf("%w: the file has %d bytes of %d: copy it again", ErrForeign, info.Size(), tx.Size())
	}
	meta := tx.Bucket(metaBucket)
	if meta == nil || string(meta.Get(formatKey)) != string(formatName) {
		return fmt.Errorf("%w: it is another program's file", ErrForeign)
	}
	version := meta.Get(versionKey)
	if len(version) != 4 || binary.BigEndian.Uint32(version) != ledgerVersion {
		return fmt.Errorf("%w: it has version %x and this program reads version %d: use the program that wrote it",
			ErrForeign, version, ledgerVersion)
	}
	return nil
}

// Close writes what waits and closes the file. It blocks until both are done; a second call does nothing.
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

// PutRun replaces the run's record. It is durable when PutRun returns.
func (l *Ledger) PutRun(run *spatev1.RunRecord) error {
	return l.update("run record", func(tx *bbolt.Tx) error {
		return putMessage(tx.Bucket(metaBucket), runKey, run)
	})
}

// Run returns the run's record.
func (l *Ledger) Run() (*spatev1.RunRecord, error) {
	run := &spatev1.RunRecord{}
	err := l.db.View(func(tx *bbolt.Tx) error {
		return proto.Unmarshal(tx.Bucket(metaBucket).Get(runKey), run)
	})
	if err != nil {
		return nil, fmt.Errorf("read run record: %w", err)
	}
	return run, nil
}

// PutStage writes the record of a stage, or replaces it. It is durable when PutStage returns.
func (l *Ledger) PutStage(stage *spatev1.StageRecord) error {
	return l.update("stage record", func(tx *bbolt.Tx) error {
		key := binary.BigEndian.AppendUint32(nil, stage.GetStage().GetIndex())
		return putMessage(tx.Bucket(stagesBucket), key, stage)
	})
}

// Stages returns the records of the run's stages so far, by index.
func (l *Ledger) Stages() ([]*spatev1.StageRecord, error) {
	var stages []*spatev1.StageRecord
	err := l.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket(stagesBucket).ForEach(func(_, value []byte) error {
			stage := &spatev1.StageRecord{}
			stages = append(stages, stage)
			return proto.Unmarshal(value, stage)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("read stage records: %w", err)
	}
	return stages, nil
}

// Copy writes a consistent copy of the file as it is now, while others go on appending.
func (l *Ledger) Copy(w io.Writer) error {
	err := l.db.View(func(tx *bbolt.Tx) error {
		_, err := tx.WriteTo(w)
		return err
	})
	if err != nil {
		return fmt.Errorf("copy ledger: %w", err)
	}
	return nil
}

// update runs one durable transaction for a named thing.
func (l *Ledger) update(what string, fn func(*bbolt.Tx) error) error {
	if err := l.db.Update(fn); err != nil {
		return fmt.Errorf("write %s: %w", what, err)
	}
	return nil
}

// putMessage stores a message under a key.
func putMessage(b *bbolt.Bucket, key []byte, m proto.Message) error {
	value, err := deterministic.Marshal(m)
	if err != nil {
		return err
	}
	return b.Put(key, value)
}

// deterministic gives equal messages equal bytes, so that a snapshot sent twice is known again without decoding.
var deterministic = proto.MarshalOptions{Deterministic: true}
