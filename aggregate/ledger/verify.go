package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"

	"github.com/spate-load/spate/measure"
)

// finding is what a walk over a ledger found.
type finding struct {
	found   map[string]holding // by bucket: the records whose checksum is right
	broken  map[string]int     // by bucket: those whose checksum is wrong
	noted   map[string]holding // by bucket: what there is by the inventory
	last    uint64             // highest number of a snapshot
	format  bool               // it says that it is a ledger
	version error              // it says that it is one of another version
	meaning error              // it says that its numbers mean something else
}

// verify reads a ledger and returns ErrForeign, or a DamageError with what is lost, or nil if it is whole: then reading
// it by way of the store gives what was written. Unless deep, it leaves out the snapshots but not their names.
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
	w.wanted = func(bucket string) bool { return deep || bucket != string(arrivalBucket) }
	r := &finding{found: map[string]holding{}, broken: map[string]int{}, noted: map[string]holding{}}
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
		return damageOf(f, deep, wrong)
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
	case isVersion && len(record) == 4: // layouts before the third had no checksums
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

// inspect looks whether a record says that the ledger is another program's.
func (r *finding) inspect(bucket string, key, content []byte) {
	switch {
	case bucket != string(metaBucket):
	case bytes.Equal(key, versionKey):
		r.version = inspectVersion(content)
	case bytes.Equal(key, definitionsKey):
		r.meaning = inspectDefinitions(content)
	}
}

// wrong says in words where the file is not what was written. Empty: it is.
func (r *finding) wrong(w *walk) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if !r.format {
		add("its first record is not that of a ledger")
	}
	for _, name := range recordBuckets() {
		bucket := string(name)
		noted, known := r.noted[bucket]
		switch found, broken := r.found[bucket], r.broken[bucket]; {
		case !w.wanted(bucket):
		case !known:
			add("it does not tell how many %s it has", kindOf(bucket))
		case broken > 0:
			add("of %d %s %d are damaged", noted.records, kindOf(bucket), broken)
		case found.records != noted.records:
			add("of %d %s %d are there", noted.records, kindOf(bucket), found.records)
		case found != noted:
			add("its %s are not those that were written last", kindOf(bucket))
		case bucket == string(arrivalBucket) &&
			r.last > w.buckets[bucket]: // the next one would take the place of one that is there
			add("it has snapshot number %d, and counts %d", r.last, w.buckets[bucket])
		}
	}
	wrong = append(wrong, w.faults...)
	if w.more > 0 {
		add("and %d further faults of its pages", w.more)
	}
	return wrong
}

// kindOf names the records of a bucket for people. Empty: ledgers have no such bucket.
func kindOf(bucket string) string {
	switch bucket {
	case string(metaBucket):
		return "records of the run"
	case string(stagesBucket):
		return "records of stages"
	case string(snapshotBucket):
		return "names of snapshots"
	case string(arrivalBucket):
		return "snapshots"
	case string(eventsBucket):
		return "events"
	case string(inventoryBucket):
		return "counts"
	}
	return ""
}

// inspectVersion says what to do with a ledger of another version.
func inspectVersion(value []byte) error {
	if len(value) != 4 {
		return fmt.Errorf("%w: its version %x is none", ErrForeign, value)
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

// inspectDefinitions says what to do with a ledger whose numbers mean something else than this program's do.
func inspectDefinitions(value []byte) error {
	if len(value) != 4 {
		return fmt.Errorf("%w: its definitions %x are none", ErrForeign, value)
	}
	if d := binary.BigEndian.Uint32(value); d != measure.Definitions {
		return fmt.Errorf("%w: its numbers were measured by definitions %d, and this one goes by %d (docs/versions.md): use the version that wrote it",
			ErrForeign, d, measure.Definitions)
	}
	return nil
}
