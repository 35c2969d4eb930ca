package ledger

import (
	"errors"
	"time"
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
