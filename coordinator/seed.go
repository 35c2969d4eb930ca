package coordinator

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
)

// probeSeed is the seed of a stage of a sweep or search, from its template's.
func probeSeed(seed uint64, value float64, number uint32) uint64 {
	buffer := []byte("spate probe seed 1")
	buffer = binary.BigEndian.AppendUint64(buffer, seed)
	buffer = binary.BigEndian.AppendUint64(buffer, math.Float64bits(value))
	buffer = binary.BigEndian.AppendUint32(buffer, number)
	sum := sha256.Sum256(buffer)
	return binary.BigEndian.Uint64(sum[:])
}
