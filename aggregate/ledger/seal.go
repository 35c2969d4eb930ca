package ledger

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"go.etcd.io/bbolt"
)

// The store has checksums only for its two meta pages. Therefore each record of a ledger ends in a checksum of its
// bucket, key and content, and the inventory has, for each bucket, the number of its records and the sum of their
// checksums. If a record was changed, moved, lost or reverted to an older version, one of the two is wrong.

// sealSize is the length of a record's checksum.
const sealSize = 4

// castagnoli is CRC-32C. It detects every burst of changes of up to 32 bits, and all but one in 2^32 of other changes.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errSeal is the error about a record whose checksum is wrong.
var errSeal = errors.New("its checksum is wrong")

// checksum returns the checksum of a record's bucket, key and content.
func checksum(bucket, key, content []byte) uint32 {
	var lengths [8]byte
	binary.BigEndian.PutUint32(lengths[:], uint32(len(bucket)))
	binary.BigEndian.PutUint32(lengths[4:], uint32(len(key)))
	sum := crc32.Update(0, castagnoli, lengths[:])
	sum = crc32.Update(sum, castagnoli, bucket)
	sum = crc32.Update(sum, castagnoli, key)
	return crc32.Update(sum, castagnoli, content)
}

// sealed returns a record as stored in the file: the content and its checksum. It may reuse content's memory.
func sealed(bucket, key, content []byte) []byte {
	return binary.BigEndian.AppendUint32(content, checksum(bucket, key, content))
}

// sealOf returns the checksum at a record's end.
func sealOf(record []byte) uint32 { return binary.BigEndian.Uint32(record[len(record)-sealSize:]) }

// unsealed returns the content of a record, or errSeal if its checksum is wrong.
func unsealed(bucket, key, record []byte) ([]byte, error) {
	if len(record) < sealSize {
		return nil, errSeal
	}
	content := record[:len(record)-sealSize]
	if checksum(bucket, key, content) != sealOf(record) {
		return nil, errSeal
	}
	return content, nil
}

// bucketSum is the inventory's entry for a bucket: the number of its records, and the sum of their checksums.
type bucketSum struct{ records, sum uint64 }

// with returns the sum with one more record.
func (h bucketSum) with(record []byte) bucketSum {
	return bucketSum{h.records + 1, h.sum + uint64(sealOf(record))}
}

// without returns the sum with one record less.
func (h bucketSum) without(record []byte) bucketSum {
	return bucketSum{h.records - 1, h.sum - uint64(sealOf(record))}
}

// encode returns the sum as stored in the inventory.
func (h bucketSum) encode() []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, h.records), h.sum)
}

// holdingOf decodes an entry of the inventory.
func holdingOf(bucket, record []byte) (bucketSum, error) {
	content, err := unsealed(inventoryBucket, bucket, record)
	if err != nil || len(content) != 16 {
		return bucketSum{}, errSeal
	}
	return bucketSum{binary.BigEndian.Uint64(content), binary.BigEndian.Uint64(content[8:])}, nil
}

// recordWriter writes the records of one transaction and updates the inventory.
type recordWriter struct {
	tx       *bbolt.Tx
	holdings map[string]bucketSum // of the changed buckets
}

// writerOf returns a writer for a transaction. The caller must call close before the transaction ends.
func writerOf(tx *bbolt.Tx) *recordWriter { return &recordWriter{tx, map[string]bucketSum{}} }

// put stores a record. It may reuse content's memory.
func (k *recordWriter) put(bucket, key, content []byte) error {
	if err := k.subtract(bucket, key); err != nil {
		return err
	}
	return k.add(bucket, key, content)
}

// subtract takes a record, if it exists, from its bucket's sum.
func (k *recordWriter) subtract(bucket, key []byte) error {
	old := k.tx.Bucket(bucket).Get(key)
	if len(old) < sealSize {
		return nil
	}
	h, err := k.sumOf(bucket)
	if err != nil {
		return err
	}
	k.holdings[string(bucket)] = h.without(old)
	return nil
}

// add is put for a record that does not exist.
func (k *recordWriter) add(bucket, key, content []byte) error {
	h, err := k.sumOf(bucket)
	if err != nil {
		return err
	}
	record := sealed(bucket, key, content)
	k.holdings[string(bucket)] = h.with(record)
	return k.tx.Bucket(bucket).Put(key, record)
}

// remove deletes a record, if it exists.
func (k *recordWriter) remove(bucket, key []byte) error {
	if err := k.subtract(bucket, key); err != nil {
		return err
	}
	return k.tx.Bucket(bucket).Delete(key)
}

// sumOf returns the current sum of a bucket.
func (k *recordWriter) sumOf(bucket []byte) (bucketSum, error) {
	if h, ok := k.holdings[string(bucket)]; ok {
		return h, nil
	}
	record := k.tx.Bucket(inventoryBucket).Get(bucket)
	if record == nil {
		return bucketSum{}, nil
	}
	return holdingOf(bucket, record)
}

// close writes the inventory's changed entries.
func (k *recordWriter) close() error {
	in := k.tx.Bucket(inventoryBucket)
	for bucket, h := range k.holdings {
		if err := in.Put([]byte(bucket), sealed(inventoryBucket, []byte(bucket), h.encode())); err != nil {
			return err
		}
	}
	return nil
}
