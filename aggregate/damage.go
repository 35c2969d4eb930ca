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
