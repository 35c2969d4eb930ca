package ledger

import (
	"bytes"
	"container/heap"
	"encoding/binary"
	"fmt"
	"iter"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// ByWindow calls fn with each snapshot of a stage, window by window, and stops at fn's first error. It holds one
// snapshot of each agent's process in memory: each process delivers its windows in order, so ByWindow only has to merge
// the processes. fn may keep the snapshot and must not write to the ledger.
func (l *Ledger) ByWindow(stage uint32, fn func(*spatev1.Snapshot) error) error {
	err := l.viewSnapshots(func(store snapshotStore) error {
		queue, err := readersOf(store, stage)
		if err != nil {
			return err
		}
		for len(queue) > 0 {
			if err := fn(queue[0].snapshot); err != nil {
				return err
			}
			if more, err := queue[0].next(); err != nil {
				return err
			} else if more {
				heap.Fix(&queue, 0)
			} else {
				heap.Pop(&queue)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read windows of stage %d: %w", stage+1, err)
	}
	return nil
}

// readersOf returns a reader for each process that has snapshots of a stage.
func readersOf(from snapshotStore, stage uint32) (queue readers, err error) {
	for process := range from.processes(stage) {
		r := &reader{store: from, cursor: from.places.Cursor(), process: process, at: process}
		if _, err := r.next(); err != nil {
			return nil, err
		}
		queue = append(queue, r)
	}
	heap.Init(&queue)
	return queue, nil
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
	process  []byte // prefix of its keys
	at       []byte // where to start; nil: the cursor is at the last snapshot read
	snapshot *spatev1.Snapshot
}

// next reads the next snapshot. It returns false if there is none.
func (r *reader) next() (more bool, err error) {
	var key, place []byte
	if r.at != nil {
		key, place = r.cursor.Seek(r.at)
		r.at = nil
	} else {
		key, place = r.cursor.Next()
	}
	if !bytes.HasPrefix(key, r.process) {
		return false, nil
	}
	value, err := r.store.at(key, place)
	if err != nil {
		return false, err
	}
	r.snapshot = &spatev1.Snapshot{}
	return true, proto.Unmarshal(value, r.snapshot)
}

// readers is a heap of readers, ordered by the window of their current snapshots, then by process.
type readers []*reader

func (q readers) Len() int      { return len(q) }
func (q readers) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q readers) Less(i, j int) bool {
	if a, b := q[i].snapshot.GetWindow(), q[j].snapshot.GetWindow(); a != b {
		return a < b
	}
	return bytes.Compare(q[i].process, q[j].process) < 0
}

// Push implements heap.Interface.
func (q *readers) Push(r any) {
	if one, ok := r.(*reader); ok {
		*q = append(*q, one)
	}
}

// Pop implements heap.Interface.
func (q *readers) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}
