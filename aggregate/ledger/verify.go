package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"sync/atomic"

	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"

	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/measure"
)

// finding is what a walk over a ledger found.
type finding struct {
	found   map[string]bucketSum // by bucket: the records with a right checksum
	broken  map[string]int       // by bucket: how many records have a wrong checksum
	noted   map[string]bucketSum // by bucket: the entry of the inventory
	last    uint64               // highest number of arrival
	format  bool                 // it has the format name of a ledger
	version error                // not nil: its layout has another version
	meaning error                // not nil: its numbers have other definitions
}

// verify reads a ledger and returns ErrForeign, a DamageError with what is lost, or nil if the ledger is intact: then
// the store returns what was written. Unless deep, verify skips the snapshots and their names.
func verify(path string, deep bool) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	w, err := newWalk(f)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	w.wanted = func(bucket string) bool {
		return deep || bucket != string(arrivalBucket) && bucket != string(snapshotBucket)
	}
	r := &finding{found: map[string]bucketSum{}, broken: map[string]int{}, noted: map[string]bucketSum{}}
	w.record = r.take
	w.all()
	switch wrong := r.wrong(w); {
	case r.version != nil:
		return r.version
	case r.meaning != nil:
		return r.meaning
	case len(r.found)+len(r.noted)+len(w.faults) == 0 && !r.format:
		return fmt.Errorf("%w: it is another program's file", ErrForeign)
	case len(wrong) > 0:
		return &DamageError{Lost: wrong}
	}
	return nil
}

// take checks a record.
func (r *finding) take(bucket string, key, record []byte) {
	switch {
	case bucket == string(inventoryBucket):
		if h, err := holdingOf(key, record); err == nil {
			r.noted[string(key)] = h
		}
		return
	case bucket == string(metaBucket) && bytes.Equal(key, formatKey):
		r.format = bytes.Equal(record, formatName)
		return
	}
	content, err := unsealed([]byte(bucket), key, record)
	isVersion := bucket == string(metaBucket) && bytes.Equal(key, versionKey)
	switch {
	case isVersion && len(record) == 4: // layouts before version 3 had no checksums
		r.version = inspectVersion(record)
	case err != nil:
		r.broken[bucket]++
	default:
		r.found[bucket] = r.found[bucket].with(record)
		r.inspect(bucket, key, content)
		if bucket == string(arrivalBucket) && len(key) == 8 {
			r.last = max(r.last, binary.BigEndian.Uint64(key))
		}
	}
}

// inspect checks whether a record says that the ledger has another version or other definitions.
func (r *finding) inspect(bucket string, key, content []byte) {
	switch {
	case bucket != string(metaBucket):
	case bytes.Equal(key, versionKey):
		r.version = inspectVersion(content)
	case bytes.Equal(key, definitionsKey):
		r.meaning = inspectDefinitions(content)
	}
}

// wrong returns, in words, where the file differs from what was written. It is empty if the file is intact.
func (r *finding) wrong(w *walk) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !r.format {
		add("its first record is not that of a ledger")
	}
	for _, name := range recordBuckets {
		bucket := string(name)
		noted, known := r.noted[bucket]
		switch found, broken := r.found[bucket], r.broken[bucket]; {
		case !w.wanted(bucket):
		case !known:
			add("it lacks the number of %s it has", kinds[bucket])
		case broken > 0:
			add("of %d %s %d are damaged", noted.records, kinds[bucket], broken)
		case found.records != noted.records:
			add("of %d %s %d are there", noted.records, kinds[bucket], found.records)
		case found != noted:
			add("its %s are not those that were written last", kinds[bucket])
		case bucket == string(arrivalBucket) &&
			r.last > w.buckets[bucket]: // the next snapshot would overwrite an existing one
			add("it has snapshot number %d, and counts %d", r.last, w.buckets[bucket])
		}
	}
	wrong = append(wrong, w.faults...)
	if w.more > 0 {
		add("and %d further faults of its pages", w.more)
	}
	return wrong
}

// kinds are the names of the buckets' records for people.
var kinds = map[string]string{
	string(metaBucket): "records of the run", string(stagesBucket): "records of stages",
	string(snapshotBucket): "names of snapshots", string(arrivalBucket): "snapshots", string(eventsBucket): "events",
	string(inventoryBucket): "counts",
}

// inspectVersion returns an error that says what to do, if the ledger's layout has another version.
func inspectVersion(value []byte) error {
	if len(value) != 4 {
		return fmt.Errorf("%w: %x is not a version", ErrForeign, value)
	}
	switch version := binary.BigEndian.Uint32(value); {
	case version < ledgerVersion:
		return fmt.Errorf("%w: an older Spate wrote it (layout %d, this one reads %d): make its files with that version's `spate report`, "+
			"or run the plan again", ErrForeign, version, ledgerVersion)
	case version > ledgerVersion:
		return fmt.Errorf("%w: a newer Spate wrote it (layout %d, this one reads %d): use that version", ErrForeign,
			version, ledgerVersion)
	}
	return nil
}

// inspectDefinitions returns an error that says what to do, if the ledger's numbers have other definitions than this
// program's.
func inspectDefinitions(value []byte) error {
	if len(value) != 4 {
		return fmt.Errorf("%w: %x is not a version of definitions", ErrForeign, value)
	}
	if d := binary.BigEndian.Uint32(value); d != measure.Definitions {
		return fmt.Errorf("%w: its numbers were measured by definitions %d, and this program uses %d: use the version that wrote it, see %s",
			ErrForeign, d, measure.Definitions, words.DocURL("versions.md", ""))
	}
	return nil
}

// DamageError says what a damaged ledger has lost. It wraps ErrDamaged.
type DamageError struct {
	// Lost is what cannot be read, in words.
	Lost []string
}

// Error returns the losses in one line.
func (e *DamageError) Error() string { return ErrDamaged.Error() + ": " + strings.Join(e.Lost, "; ") }

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
