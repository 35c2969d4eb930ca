package ledger

import (
	"errors"
	"fmt"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

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
