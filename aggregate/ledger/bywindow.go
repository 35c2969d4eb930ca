package ledger

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ByWindow calls fn with each snapshot of a stage, without request rows, window by window, and stops at fn's first
// error. It holds one snapshot of each agent's process in memory: each process delivers its windows in order, so
// ByWindow only has to merge the processes. fn may keep the snapshot and must not write to the ledger.
func (l *Ledger) ByWindow(stage uint32, fn func(*spatev1.Snapshot) error) error {
	err := l.viewSnapshots(func(store snapshotStore) error {
		readers, err := readersOf(store, stage)
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
	if err != nil {
		return fmt.Errorf("read windows of stage %d: %w", stage+1, err)
	}
	return nil
}

// readersOf returns a reader for each process that has snapshots of a stage, at its first one.
func readersOf(from snapshotStore, stage uint32) (readers []*reader, err error) {
	for process := range from.processes(stage) {
		r := &reader{store: from, cursor: from.places.Cursor(), process: process, at: process}
		if err := r.next(); err != nil {
			return nil, err
		}
		readers = append(readers, r)
	}
	return readers, nil
}

// processes returns the prefixes of the keys of the processes that have snapshots of a stage, in order.
func (s snapshotStore) processes(stage uint32) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		prefix := binary.BigEndian.AppendUint32(nil, stage)
		for c, at := s.places.Cursor(), prefix; ; {
			key, _ := c.Seek(at)
			if !bytes.HasPrefix(key, prefix) || len(key) < len(prefix)+16 {
				return
			}
			process := bytes.Clone(key[:len(key)-8])
			if !yield(process) {
				return
			}
			at = after(process)
		}
	}
}

// lastOf returns the key and the place of the last snapshot of a process.
func (s snapshotStore) lastOf(process []byte) (key, place []byte) {
	c := s.places.Cursor()
	if next, _ := c.Seek(after(process)); next == nil {
		return c.Last()
	}
	return c.Prev()
}

// after returns a key behind all keys of a process.
func after(process []byte) []byte {
	return append(bytes.Clone(process), 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff)
}

// Newest calls fn with the newest snapshot of each process that has any of a stage, without request rows, and stops at
// fn's first error. It reads no others, so it takes as long for a long stage as for a short one.
func (l *Ledger) Newest(stage uint32, fn func(*spatev1.Snapshot) error) error {
	err := l.viewSnapshots(func(store snapshotStore) error {
		for process := range store.processes(stage) {
			key, place := store.lastOf(process)
			value, err := store.at(key, place)
			if err != nil {
				return err
			}
			s := &spatev1.Snapshot{}
			if err := proto.Unmarshal(withoutRows(value), s); err != nil {
				return err
			}
			if err := fn(s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read newest snapshots of stage %d: %w", stage+1, err)
	}
	return nil
}

// reader reads the snapshots of one process in order.
type reader struct {
	store    snapshotStore
	cursor   *bbolt.Cursor
	process  []byte            // prefix of its keys
	at       []byte            // where to start; nil: the cursor is at the last snapshot read
	snapshot *spatev1.Snapshot // nil: there are no more
}

// window returns the window of the current snapshot.
func (r *reader) window() uint32 { return r.snapshot.GetWindow() }

// next reads the next snapshot.
func (r *reader) next() error {
	var key, place []byte
	if r.at != nil {
		key, place = r.cursor.Seek(r.at)
		r.at = nil
	} else {
		key, place = r.cursor.Next()
	}
	if r.snapshot = nil; !bytes.HasPrefix(key, r.process) {
		return nil
	}
	value, err := r.store.at(key, place)
	if err != nil {
		return err
	}
	r.snapshot = &spatev1.Snapshot{}
	return proto.Unmarshal(withoutRows(value), r.snapshot)
}
