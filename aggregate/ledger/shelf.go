package ledger

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// shelf is where the ledger keeps snapshots: all in the order in which they came, and by name the place of each. A page
// of the file that gets a snapshot is written anew with all the others on it. Were they kept by name, each of a
// thousand agents would write a page of its old ones each second; as they come, the new ones share pages of their own,
// and only the places, which are small, are spread out.
type shelf struct {
	places  *bbolt.Bucket // number of arrival by name
	arrived *bbolt.Bucket // encoding by number of arrival
}

// shelfOf returns the shelf of a transaction.
func shelfOf(tx *bbolt.Tx) shelf {
	s := shelf{tx.Bucket(snapshotBucket), tx.Bucket(arrivalBucket)}
	s.arrived.FillPercent = 1 // nothing comes in between
	return s
}

// get returns the encoding of a snapshot, nil if there is none.
func (s shelf) get(name []byte) ([]byte, error) {
	place := s.places.Get(name)
	if place == nil {
		return nil, nil
	}
	return s.at(name, place)
}

// at returns the encoding of the snapshot that has a place.
func (s shelf) at(name, place []byte) ([]byte, error) {
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

// put stores the encoding of a snapshot that is not there. It may use value's memory.
func (s shelf) put(k *keeper, name, value []byte) error {
	number, err := s.arrived.NextSequence()
	if err != nil {
		return err
	}
	at := binary.BigEndian.AppendUint64(nil, number)
	if err := k.put(arrivalBucket, at, value); err != nil {
		return err
	}
	return k.put(snapshotBucket, name, at)
}

// discard removes the snapshots whose names begin with a prefix.
func (s shelf) discard(k *keeper, prefix []byte) error {
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
