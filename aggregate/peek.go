package aggregate

import (
	"errors"
	"fmt"
	"time"
)

// Peek opens a ledger, calls fn with it to read, and closes it. It does not wait for another process that writes it: that is ErrLocked at
// once. Append and Put fail.
func Peek(path string, fn func(*Ledger) error) error {
	l, err := open(path, true, time.Millisecond, openExisting)
	if err != nil {
		return fmt.Errorf("open ledger %s: %w", path, err)
	}
	if err := l.view(inspect); err != nil {
		return errors.Join(fmt.Errorf("open ledger %s: %w", path, err), l.Close())
	}
	return errors.Join(fn(l), l.Close())
}
