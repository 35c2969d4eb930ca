package ledger

import (
	"errors"
	"time"
)

// Peek opens a ledger, calls fn with it to read its records and events, and closes it. Its snapshots cannot be read:
// that saves looking at them, which are nearly all of the file. It does not wait for another process that writes the
// ledger: that is ErrLocked at once. Append and Put fail. The error is that of fn, or as OpenReadOnly's.
func Peek(path string, fn func(*Ledger) error) error {
	l, err := openVerified(path, time.Millisecond, false)
	if err != nil {
		return err
	}
	return errors.Join(fn(l), l.Close())
}
