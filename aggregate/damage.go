package aggregate

import (
	"errors"
	"fmt"
	"runtime/debug"

	"go.etcd.io/bbolt"
)

// ErrDamaged says that a file was a ledger and cannot be read any more.
var ErrDamaged = errors.New("the ledger is damaged: restore the file from a copy, or move its directory away")

// guarded runs fn, which reads a file that may be damaged. The store trusts its pages: from a damaged one it panics, or reads memory that is
// not there. Both become errors here, so that one bad file does not end a process that serves others.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w (%v)", ErrDamaged, p)
		}
	}()
	return fn()
}

// view runs a read transaction on a file that may be damaged.
func (l *Ledger) view(fn func(*bbolt.Tx) error) error {
	return guarded(func() error { return l.db.View(fn) })
}

// walk reads all keys, so that what cannot be read is found here, where it does no harm.
func walk(tx *bbolt.Tx) error {
	return tx.ForEach(func(_ []byte, b *bbolt.Bucket) error {
		return b.ForEach(func(_, _ []byte) error { return nil })
	})
}

// sound checks the whole file before it is opened to write to it: the store panics beyond rescue when it looks for free pages in a
// file that is damaged. It reads the file twice.
func (l *Ledger) sound() error {
	if err := l.view(walk); err != nil {
		return err
	}
	return l.view(func(tx *bbolt.Tx) error {
		var first error
		for err := range tx.Check() {
			if first == nil {
				first = fmt.Errorf("%w (%w)", ErrDamaged, err)
			}
		}
		return first
	})
}
