package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"go.etcd.io/bbolt"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

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
	stage, k, ok := nameOf(key)
	if !ok {
		return fmt.Sprintf("snapshot %x", key)
	}
	return fmt.Sprintf("stage %d, %s", stage+1, KeyText(k))
}

// nameOf returns the snapshot that a key names. ok is false if the key is invalid.
func nameOf(key []byte) (stage uint32, k *spatev1.SnapshotKey, ok bool) {
	end := len(key) - 8
	if end <= processAt+1 || key[end-1] != 0 {
		return 0, nil, false
	}
	return binary.BigEndian.Uint32(key), &spatev1.SnapshotKey{
		Agent: string(key[processAt : end-1]), Incarnation: binary.BigEndian.Uint64(key[end:]),
		Sequence: binary.BigEndian.Uint64(key[4:]),
	}, true
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

// Snapshots calls fn with each snapshot of a stage, ordered by sequence, agent and incarnation, and stops at fn's first
// error. fn may keep the snapshot and must not write to the ledger.
func (l *Ledger) Snapshots(stage uint32, fn func(*spatev1.Snapshot) error) error {
	return l.snapshots(stage, func(encoded []byte) []byte { return encoded }, fn)
}

// Measurements is Snapshots, but leaves out the request rows, which are most of a snapshot and in no sum.
func (l *Ledger) Measurements(stage uint32, fn func(*spatev1.Snapshot) error) error {
	return l.snapshots(stage, withoutRows, fn)
}

// Arrivals is Snapshots in the order of their arrival, which is nearly that of time.
func (l *Ledger) Arrivals(stage uint32, fn func(*spatev1.Snapshot) error) error {
	return l.viewStage(stage, func(store snapshotStore, prefix []byte) error {
		var first, last []byte
		places := store.places.Cursor()
		for k, at := places.Seek(prefix); bytes.HasPrefix(k, prefix); k, at = places.Next() {
			number, err := arrival(k, at)
			if err != nil {
				return err
			}
			if first == nil || bytes.Compare(number, first) < 0 {
				first = number
			}
			if bytes.Compare(number, last) > 0 {
				last = number
			}
		}
		ofStage := func(s *spatev1.Snapshot) error {
			if s.GetStageIndex() != stage {
				return nil // stages overlap by their last snapshots
			}
			return fn(s)
		}
		arrived := store.arrived.Cursor()
		for k, v := arrived.Seek(first); k != nil && bytes.Compare(k, last) <= 0; k, v = arrived.Next() {
			encoded, err := unsealed(arrivalBucket, k, v)
			if err != nil {
				return &DamageError{Lost: []string{nameText(k)}}
			}
			if err := decoded(encoded, ofStage); err != nil {
				return err
			}
		}
		return nil
	})
}

// snapshots implements Snapshots. part returns what is decoded of an encoded snapshot.
func (l *Ledger) snapshots(stage uint32, part func([]byte) []byte, fn func(*spatev1.Snapshot) error) error {
	return l.viewStage(stage, func(store snapshotStore, prefix []byte) error {
		c := store.places.Cursor()
		for k, at := c.Seek(prefix); bytes.HasPrefix(k, prefix); k, at = c.Next() {
			v, err := store.at(k, at)
			if err != nil {
				return err
			}
			if err := decoded(part(v), fn); err != nil {
				return err
			}
		}
		return nil
	})
}

// viewStage runs fn in a read transaction on the snapshots. prefix is that of the names of a stage's.
func (l *Ledger) viewStage(stage uint32, fn func(store snapshotStore, prefix []byte) error) error {
	prefix := binary.BigEndian.AppendUint32(nil, stage)
	if err := l.viewSnapshots(func(store snapshotStore) error { return fn(store, prefix) }); err != nil {
		return fmt.Errorf("read snapshots of stage %d: %w", stage+1, err)
	}
	return nil
}

// decoded calls fn with an encoded snapshot.
func decoded(encoded []byte, fn func(*spatev1.Snapshot) error) error {
	s := &spatev1.Snapshot{}
	if err := proto.Unmarshal(encoded, s); err != nil {
		return err
	}
	return fn(s)
}

// rowsField is the number of the field of a snapshot with its request rows.
var rowsField = (&spatev1.Snapshot{}).ProtoReflect().Descriptor().Fields().ByName("records").Number()

// withoutRows returns an encoded snapshot without its request rows. It decodes nothing, and does not change encoded.
func withoutRows(encoded []byte) (out []byte) {
	for rest := encoded; len(rest) > 0; {
		number, _, n := protowire.ConsumeField(rest)
		if n < 0 {
			return encoded // decoding it says what is wrong
		}
		if number != rowsField {
			out = append(out, rest[:n]...)
		}
		rest = rest[n:]
	}
	return out
}

// viewSnapshots runs fn in a read transaction on the snapshots.
func (l *Ledger) viewSnapshots(fn func(snapshotStore) error) error {
	if l.shallow {
		return errors.New("the ledger was opened to look at its records only")
	}
	return l.view(func(tx *bbolt.Tx) error { return fn(snapshotsOf(tx)) })
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
	at := binary.BigEndian.AppendUint64(nil, number)
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
