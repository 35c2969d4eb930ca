package ledger

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// snapshotStore is where the ledger stores snapshots: all of them in the order of arrival, and by name the place of
// each. To add a snapshot, the store rewrites the whole page. If snapshots were stored by name, each of a thousand
// agents would rewrite a page of its old snapshots every second. In the order of arrival, new snapshots share pages of
// their own, and only their places, which are small, are scattered.
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

// at returns the encoded snapshot at a place.
func (s snapshotStore) at(name, place []byte) ([]byte, error) {
	number, err := unsealed(snapshotBucket, name, place)
	if err != nil {
		return nil, &DamageError{Lost: []string{nameText(name) + ": the place of it is damaged"}}
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
		number, err := unsealed(snapshotBucket, name, s.places.Get(name))
		if err != nil {
			return &DamageError{Lost: []string{nameText(name) + ": the place of it is damaged"}}
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
