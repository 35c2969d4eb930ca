package ledger

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

// DamageError says what a damaged ledger has lost. It wraps ErrDamaged.
type DamageError struct {
	// Run is the run's ID. It is empty if not known, for example because the run's record is lost too.
	Run string
	// Lost is what cannot be read, in words: by stage, agent and window as far as these are known.
	Lost []string
}

// Error returns the losses in one line.
func (e *DamageError) Error() string {
	of := ""
	if e.Run != "" {
		of = ", run " + e.Run
	}
	return fmt.Sprintf("%v%s: %s", ErrDamaged, of, strings.Join(e.Lost, "; "))
}

// Unwrap returns ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }

// guarded runs fn, which reads a file that may be damaged. The store trusts its pages: on a damaged page it panics, or
// reads unmapped memory. guarded turns both into errors, so that one bad file does not end a process that serves other
// runs.
func guarded(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			err = &DamageError{Lost: []string{fmt.Sprint(p)}}
		}
	}()
	return fn()
}

// failures is where the store logs. It logs a write that failed before it looks for free pages: a panic keeps it from
// that.
type failures struct {
	*bbolt.DefaultLogger
	end atomic.Bool // a transaction is being committed: end it at the first failure
}

// failure is a panic of a write that failed.
type failure struct{ error }

// Errorf ends a commit.
func (f *failures) Errorf(format string, values ...any) {
	if !f.end.Load() {
		return
	}
	err, ok := values[len(values)-1].(error)
	if !ok {
		err = fmt.Errorf(format, values...)
	}
	panic(failure{err})
}

// view runs fn in a read transaction on a file that may be damaged. The error is ErrClosed if the ledger is closed.
func (l *Ledger) view(fn func(*bbolt.Tx) error) error {
	err := guarded(func() error { return l.db.View(fn) })
	if errors.Is(err, bbolterrors.ErrDatabaseNotOpen) {
		return ErrClosed
	}
	return err
}
