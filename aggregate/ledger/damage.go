package ledger

import (
	"fmt"
	"runtime/debug"
	"strings"

	"go.etcd.io/bbolt"
)

// DamageError says what of a ledger is lost. It is an ErrDamaged.
type DamageError struct {
	// Run is the run's id. Empty: it is not known, or the run's record is lost too.
	Run string
	// Lost is what cannot be read, in words: by stage, agent and window as far as that can be known.
	Lost []string
}

// Error says it in one line.
func (e *DamageError) Error() string {
	of := ""
	if e.Run != "" {
		of = ", run " + e.Run
	}
	return fmt.Sprintf("%v%s: %s", ErrDamaged, of, strings.Join(e.Lost, "; "))
}

// Unwrap makes it an ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }

// guarded runs fn, which reads a file that may be damaged. The store trusts its pages: from a damaged one it panics, or
// reads memory that is not there. Both become errors here, so that one bad file does not end a process that serves
// others.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = &DamageError{Lost: []string{fmt.Sprint(p)}}
		}
	}()
	return fn()
}

// view runs a read transaction on a file that may be damaged.
func (l *Ledger) view(fn func(*bbolt.Tx) error) error {
	return guarded(func() error { return l.db.View(fn) })
}
