package aggregate

import (
	"bytes"
	"encoding/binary"

	"go.etcd.io/bbolt"
)

// shelf is where the ledger keeps snapshots: all in the order in which they came, and by name the place of each. A page of the file that
// gets a snapshot is written anew with all the others on it. Were they kept by name, each of a thousand agents would write a page of its
// old ones each second; as they come, the new ones share pages of their own, and only the places, which are small, are spread out.
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
func (s shelf) get(name []byte) []byte {
	if at := s.places.Get(name); at != nil {
		return s.arrived.Get(at)
	}
	return nil
}

// put stores the encoding of a snapshot that is not there.
func (s shelf) put(name, value []byte) error {
	number, err := s.arrived.NextSequence()
	if err != nil {
		return err
	}
	at := binary.BigEndian.AppendUint64(nil, number)
	if err := s.arrived.Put(at, value); err != nil {
		return err
	}
	return s.places.Put(name, at)
}

// discard removes the snapshots whose names begin with a prefix.
func (s shelf) discard(prefix []byte) error {
	var names [][]byte // a cursor must not delete while it walks
	c := s.places.Cursor()
	for name, at := c.Seek(prefix); bytes.HasPrefix(name, prefix); name, at = c.Next() {
		names = append(names, bytes.Clone(name))
		if err := s.arrived.Delete(at); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := s.places.Delete(name); err != nil {
			return err
		}
	}
	return nil
}
