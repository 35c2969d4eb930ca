package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// pendingBatch is one call of Append that is waiting for the writer.
type pendingBatch struct {
	entries []entry
	fresh   []bool
	err     error
	done    chan struct{} // closed by the writer
}

// encodings has the memory of entries that were written.
var encodings sync.Pool

// entry is one snapshot in the encoding of the file.
type entry struct {
	key, value []byte
	name       *spatev1.SnapshotKey
}

// Append adds snapshots and blocks until they are durable. fresh reports for each snapshot whether it is new; false
// means that the ledger already had it, which is not an error. If a snapshot contradicts the ledger, Append adds
// nothing of the batch and returns ErrConflict. Calls that wait at the same time share one transaction; a conflict in
// one does not affect the others.
func (l *Ledger) Append(batch []*spatev1.Snapshot) (fresh []bool, err error) {
	p := &pendingBatch{fresh: make([]bool, len(batch)), done: make(chan struct{})}
	for _, s := range batch {
		e, err := entryOf(s)
		if err != nil {
			return nil, fmt.Errorf("append %s: %w", KeyText(s.GetKey()), err)
		}
		p.entries = append(p.entries, e)
	}
	if err := l.enqueue(p); err != nil {
		return nil, fmt.Errorf("append %d snapshots: %w", len(batch), err)
	}
	<-p.done
	if p.err != nil {
		return nil, p.err
	}
	return p.fresh, nil
}

// enqueue passes a batch to the writer.
func (l *Ledger) enqueue(p *pendingBatch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return ErrClosed
	}
	l.waiting = append(l.waiting, p)
	select {
	case l.wake <- struct{}{}:
	default: // the writer has been woken but has not taken the queue yet
	}
	return nil
}

// write is the writer's goroutine: it commits waiting batches until the ledger is closed, and then closes done.
func (l *Ledger) write() {
	defer close(l.done)
	for range l.wake {
		l.commit(l.take())
	}
}

// take empties the queue and returns its batches.
func (l *Ledger) take() []*pendingBatch {
	l.mu.Lock()
	defer l.mu.Unlock()
	group := l.waiting
	l.waiting = nil
	return group
}

// commit writes a group of batches in one transaction and finishes each call of Append.
func (l *Ledger) commit(group []*pendingBatch) {
	err := l.update("snapshots", func(k *recordWriter) error { return putAll(k, group) })
	for _, p := range group {
		if err != nil {
			p.err = fmt.Errorf("append %d snapshots: %w", len(p.entries), err)
		}
		for _, e := range p.entries {
			encodings.Put(e.value) //nolint:staticcheck // its head, which this copies, is nothing beside its content
		}
		close(p.done)
	}
}

// putAll stores a group of batches. It skips only the batches that contradict the ledger.
func putAll(k *recordWriter, group []*pendingBatch) error {
	store := snapshotsOf(k.tx)
	for _, p := range group {
		conflict, err := p.put(k, store)
		if err != nil {
			return err
		}
		p.err = conflict
	}
	return nil
}

// put stores the batch's new snapshots, or none of them if one contradicts the ledger.
func (p *pendingBatch) put(k *recordWriter, b snapshotStore) (conflict, err error) {
	within := make(map[string][]byte, len(p.entries))
	for i, e := range p.entries {
		held := within[string(e.key)]
		if held == nil {
			if held, err = b.get(e.key); err != nil {
				return nil, err
			}
		}
		if held != nil && !sameSnapshot(held, e.value) {
			return fmt.Errorf("append %s: %w", KeyText(e.name), ErrConflict), nil
		}
		p.fresh[i] = held == nil
		within[string(e.key)] = e.value
	}
	for i, e := range p.entries {
		if !p.fresh[i] {
			continue
		}
		if err := b.put(k, e.key, e.value); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// sameSnapshot reports whether a snapshot equals the one that is held. The bytes are usually equal, but another build
// of the program may order fields differently.
func sameSnapshot(held, sent []byte) bool {
	if bytes.Equal(held, sent) {
		return true
	}
	var x, y spatev1.Snapshot
	return proto.Unmarshal(held, &x) == nil && proto.Unmarshal(sent, &y) == nil && proto.Equal(&x, &y)
}

// entryOf encodes a snapshot.
func entryOf(s *spatev1.Snapshot) (entry, error) {
	name := s.GetKey()
	if name.GetAgent() == "" || strings.ContainsRune(name.GetAgent(), 0) {
		return entry{}, fmt.Errorf("agent name %q is empty or contains NUL", name.GetAgent())
	}
	memory, _ := encodings.Get().([]byte)
	value, err := deterministic.MarshalAppend(memory[:0], s)
	if err != nil {
		return entry{}, err
	}
	value = slices.Grow(value, sealSize) // for the checksum
	return entry{key: snapshotKey(s.GetStageIndex(), name), value: value, name: name}, nil
}

// snapshotKey returns the key of a snapshot. Keys sort by stage, sequence, agent and incarnation. All agents send a
// sequence at about the same time, so the places of new snapshots share pages: see snapshotStore.
func snapshotKey(stage uint32, k *spatev1.SnapshotKey) []byte {
	key := make([]byte, 0, processAt+len(k.GetAgent())+1+8)
	key = binary.BigEndian.AppendUint32(key, stage)
	key = binary.BigEndian.AppendUint64(key, k.GetSequence())
	return binary.BigEndian.AppendUint64(append(append(key, k.GetAgent()...), 0), k.GetIncarnation())
}

// processAt is where a key names the agent's process, behind stage and sequence.
const processAt = 4 + 8

// nameText returns the name of a key's snapshot for people.
func nameText(key []byte) string {
	end := len(key) - 8
	if end <= processAt+1 || key[end-1] != 0 {
		return fmt.Sprintf("snapshot %x", key)
	}
	return fmt.Sprintf("stage %d, %s", binary.BigEndian.Uint32(key)+1, KeyText(&spatev1.SnapshotKey{
		Agent: string(key[processAt : end-1]), Incarnation: binary.BigEndian.Uint64(key[end:]),
		Sequence: binary.BigEndian.Uint64(key[4:]),
	}))
}

// Has reports whether the ledger has a snapshot of a stage under a key.
func (l *Ledger) Has(stage uint32, k *spatev1.SnapshotKey) (found bool, err error) {
	err = l.view(func(tx *bbolt.Tx) error {
		found = tx.Bucket(snapshotBucket).Get(snapshotKey(stage, k)) != nil
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("look for a snapshot of stage %d: %w", stage+1, err)
	}
	return found, nil
}

// Measurements calls fn with each snapshot of a stage, ordered by sequence, agent and incarnation, and stops at fn's
// first error. It leaves out the request rows, which are most of a snapshot and in no sum. fn may keep the snapshot and
// must not write to the ledger.
func (l *Ledger) Measurements(stage uint32, fn func(*spatev1.Snapshot) error) error {
	return l.snapshots(stage, false, func(encoded []byte) error { return decoded(encoded, fn) })
}

// Rows calls fn with the request rows of each snapshot of a stage, and stops at fn's first error. Snapshots come in the
// order of their arrival, which is nearly that of time, with nothing but their names and windows. Rows are encoded, and
// valid until fn returns.
func (l *Ledger) Rows(stage uint32, fn func(of *spatev1.Snapshot, rows [][]byte) error) error {
	names := []protowire.Number{field("key"), field("stage_index"), field("window")}
	return l.snapshots(stage, true, func(encoded []byte) error {
		name, rows := parted(encoded, func(n protowire.Number) bool { return slices.Contains(names, n) })
		s := &spatev1.Snapshot{}
		if err := proto.Unmarshal(name, s); err != nil {
			return err
		}
		return fn(s, rows)
	})
}

// Read is how many bytes of snapshots this process has read from ledgers, for those who show how far it is.
var Read atomic.Int64

// snapshots calls fn with each encoded snapshot of a stage, ordered by name, or as they arrived.
func (l *Ledger) snapshots(stage uint32, asArrived bool, fn func([]byte) error) error {
	return l.viewStage(stage, func(store snapshotStore, prefix []byte) error {
		var numbers []uint64
		places := store.places.Cursor()
		for k, at := places.Seek(prefix); bytes.HasPrefix(k, prefix); k, at = places.Next() {
			number, err := arrival(k, at)
			if err != nil {
				return err
			}
			numbers = append(numbers, binary.BigEndian.Uint64(number))
		}
		if asArrived {
			slices.Sort(numbers)
		}
		for _, number := range numbers {
			key := numberKey(number)
			encoded, err := unsealed(arrivalBucket, key, store.arrived.Get(key))
			if err != nil {
				return &DamageError{Lost: []string{nameText(store.nameOf(prefix, number))}}
			}
			Read.Add(int64(len(encoded)))
			if err := fn(encoded); err != nil {
				return err
			}
		}
		return nil
	})
}

// nameOf returns the name of a stage's snapshot by its number of arrival.
func (s snapshotStore) nameOf(prefix []byte, number uint64) (name []byte) {
	c := s.places.Cursor()
	for k, at := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, at = c.Next() {
		if n, err := arrival(k, at); err == nil && binary.BigEndian.Uint64(n) == number {
			return k
		}
	}
	return numberKey(number)
}

// viewStage runs fn in a read transaction on the snapshots. prefix is that of the names of a stage's.
func (l *Ledger) viewStage(stage uint32, fn func(store snapshotStore, prefix []byte) error) error {
	if l.shallow {
		return errors.New("the ledger was opened to look at its records only")
	}
	prefix := binary.BigEndian.AppendUint32(nil, stage)
	if err := l.view(func(tx *bbolt.Tx) error { return fn(snapshotsOf(tx), prefix) }); err != nil {
		return fmt.Errorf("read snapshots of stage %d: %w", stage+1, err)
	}
	return nil
}

// decoded calls fn with an encoded snapshot without its request rows.
func decoded(encoded []byte, fn func(*spatev1.Snapshot) error) error {
	measured, _ := parted(encoded, func(protowire.Number) bool { return true })
	s := &spatev1.Snapshot{}
	if err := proto.Unmarshal(measured, s); err != nil {
		return err
	}
	return fn(s)
}

// parted returns wanted fields of an encoded snapshot, and apart from them its request rows. It decodes nothing, and
// does not change encoded, of which the rows are parts.
func parted(encoded []byte, wanted func(protowire.Number) bool) (out []byte, rows [][]byte) {
	for rest := encoded; len(rest) > 0; {
		number, kind, n := protowire.ConsumeField(rest)
		switch {
		case n < 0:
			return encoded, nil // decoding it says what is wrong
		case number == rowsField && kind == protowire.BytesType:
			_, _, tag := protowire.ConsumeTag(rest)
			row, _ := protowire.ConsumeBytes(rest[tag:])
			rows = append(rows, row)
		case wanted(number):
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out, rows
}

// rowsField is the number of the field of a snapshot with its request rows.
var rowsField = field("records")

// field returns the number of a field of a snapshot.
func field(name protoreflect.Name) protowire.Number {
	return (&spatev1.Snapshot{}).ProtoReflect().Descriptor().Fields().ByName(name).Number()
}

// KeyText returns the name of a snapshot for people.
func KeyText(k *spatev1.SnapshotKey) string {
	return fmt.Sprintf("snapshot %d of agent %q (process %x)", k.GetSequence(), k.GetAgent(), k.GetIncarnation())
}

// snapshotStore is where the ledger stores snapshots: all of them in the order of arrival, and by name the place of
// each. To add a record, the store rewrites its whole page. In the order of arrival, new snapshots share pages of their
// own, and so do their places, which are sorted by sequence first. Sorted by agent, each of a thousand agents would
// rewrite a page of its old ones every second.
type snapshotStore struct {
	places  *bbolt.Bucket // numbers of arrival, by name
	arrived *bbolt.Bucket // encoded snapshots, by number of arrival
}

// snapshotsOf returns the store of a transaction.
func snapshotsOf(tx *bbolt.Tx) snapshotStore {
	s := snapshotStore{tx.Bucket(snapshotBucket), tx.Bucket(arrivalBucket)}
	s.arrived.FillPercent = 1 // keys only grow, so nothing is inserted in between
	return s
}

// get returns an encoded snapshot, or nil if there is none.
func (s snapshotStore) get(name []byte) ([]byte, error) {
	place := s.places.Get(name)
	if place == nil {
		return nil, nil
	}
	return s.at(name, place)
}

// arrival returns the number of arrival of a snapshot by its place.
func arrival(name, place []byte) ([]byte, error) {
	number, err := unsealed(snapshotBucket, name, place)
	if err != nil {
		return nil, &DamageError{Lost: []string{nameText(name) + ": the place of it is damaged"}}
	}
	return number, nil
}

// at returns the encoded snapshot at a place.
func (s snapshotStore) at(name, place []byte) ([]byte, error) {
	number, err := arrival(name, place)
	if err != nil {
		return nil, err
	}
	content, err := unsealed(arrivalBucket, number, s.arrived.Get(number))
	if err != nil {
		return nil, &DamageError{Lost: []string{nameText(name)}}
	}
	return content, nil
}

// put stores an encoded snapshot that the store does not have yet. It may reuse value's memory.
func (s snapshotStore) put(k *recordWriter, name, value []byte) error {
	number, err := s.arrived.NextSequence()
	if err != nil {
		return err
	}
	at := numberKey(number)
	if err := k.add(arrivalBucket, at, value); err != nil {
		return err
	}
	return k.add(snapshotBucket, name, at)
}

// discard removes the snapshots whose names start with a prefix.
func (s snapshotStore) discard(k *recordWriter, prefix []byte) error {
	var names [][]byte // a cursor must not delete while it walks
	c := s.places.Cursor()
	for name, _ := c.Seek(prefix); bytes.HasPrefix(name, prefix); name, _ = c.Next() {
		names = append(names, bytes.Clone(name))
	}
	for _, name := range names {
		number, err := arrival(name, s.places.Get(name))
		if err != nil {
			return err
		}
		if err := k.remove(arrivalBucket, bytes.Clone(number)); err != nil {
			return err
		}
		if err := k.remove(snapshotBucket, name); err != nil {
			return err
		}
	}
	return nil
}
