package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"

	"go.etcd.io/bbolt"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ByWindow calls fn with each snapshot of a stage, without request rows, window by window, and stops at fn's first
// error. It holds one snapshot of each agent's process in memory: each process delivers its windows in order, so
// ByWindow only has to merge the processes. fn may keep the snapshot and must not write to the ledger.
func (l *Ledger) ByWindow(stage uint32, fn func(*spatev1.Snapshot) error) error {
	return l.viewStage(stage, func(store snapshotStore, prefix []byte) (err error) {
		readers := readersOf(store, prefix)
		for _, r := range readers {
			err = errors.Join(err, r.next())
		}
		for err == nil && len(readers) > 0 {
			first := slices.MinFunc(readers, func(a, b *reader) int { return cmp.Compare(a.window(), b.window()) })
			window := first.window()
			for _, r := range readers {
				for err == nil && r.snapshot != nil && r.window() <= window {
					if err = fn(r.snapshot); err == nil {
						err = r.next()
					}
				}
			}
			readers = slices.DeleteFunc(readers, func(r *reader) bool { return r.snapshot == nil })
		}
		return err
	})
}

// readersOf returns a reader for each process that has snapshots of a stage, before its first one, sorted by process.
func readersOf(from snapshotStore, prefix []byte) (readers []*reader) {
	of := map[string]*reader{}
	c := from.places.Cursor()
	for key, _ := c.Seek(prefix); bytes.HasPrefix(key, prefix) && len(key) > processAt; key, _ = c.Next() {
		r := of[string(key[processAt:])]
		if r == nil {
			r = &reader{store: from, cursor: from.places.Cursor(), stage: prefix, process: string(key[processAt:]),
				sequence: binary.BigEndian.Uint64(key[4:])}
			of[r.process] = r
			readers = append(readers, r)
		}
		r.last = binary.BigEndian.Uint64(key[4:])
	}
	slices.SortFunc(readers, func(a, b *reader) int { return cmp.Compare(a.process, b.process) })
	return readers
}

// Newest calls fn with the newest snapshot of each process that has any of a stage, without request rows, and stops at
// fn's first error. Of the others it reads only the names.
func (l *Ledger) Newest(stage uint32, fn func(*spatev1.Snapshot) error) error {
	return l.viewStage(stage, func(store snapshotStore, prefix []byte) error {
		for _, r := range readersOf(store, prefix) {
			r.sequence = r.last
			if err := r.next(); err != nil {
				return err
			}
			if err := fn(r.snapshot); err != nil {
				return err
			}
		}
		return nil
	})
}

// reader reads the snapshots of one process in order.
type reader struct {
	store          snapshotStore
	cursor         *bbolt.Cursor
	stage          []byte            // as in keys
	process        string            // as in keys
	sequence, last uint64            // where the next snapshot may be, and the last one
	ended          bool              // the last one was read
	snapshot       *spatev1.Snapshot // nil: there are no more
}

// window returns the window of the current snapshot.
func (r *reader) window() uint32 { return r.snapshot.GetWindow() }

// next reads the next snapshot.
func (r *reader) next() error {
	for !r.ended {
		wanted := append(binary.BigEndian.AppendUint64(bytes.Clone(r.stage), r.sequence), r.process...)
		key, place := r.cursor.Seek(wanted)
		if bytes.Equal(key, wanted) {
			r.ended = r.sequence == r.last
			r.sequence++
			value, err := r.store.at(key, place)
			if err != nil {
				return err
			}
			return decoded(value, func(s *spatev1.Snapshot) error { r.snapshot = s; return nil })
		}
		r.sequence = max(r.sequence+1, binary.BigEndian.Uint64(key[4:])) // of the next that there is
	}
	r.snapshot = nil
	return nil
}
