package dataset

import "math/bits"

// hashes is a set of hashes. It is open addressing in parts that grow one by one, so that its memory is never twice
// what it holds, as it is while a table is copied into one of twice its size: a part is between half and four fifths
// full, 10 to 15 bytes a hash.
type hashes struct {
	parts [256]part
	size  int
}

// part is a table with linear probing. 0 is an empty place.
type part struct {
	table []uint64
	used  int
}

// has reports whether the hash is in the set.
func (h *hashes) has(hash uint64) bool {
	hash = max(hash, 1)
	p := &h.parts[hash&255]
	return len(p.table) > 0 && p.table[p.find(hash)] == hash
}

// add adds a hash, and reports whether it was not there.
func (h *hashes) add(hash uint64) bool {
	hash = max(hash, 1)
	p := &h.parts[hash&255]
	if 5*(p.used+1) > 4*len(p.table) {
		p.grow()
	}
	i := p.find(hash)
	if p.table[i] == hash {
		return false
	}
	p.table[i] = hash
	p.used++
	h.size++
	return true
}

// find returns the place of a hash, or the empty one where it belongs. Places go by the upper bits, parts by the lower
// ones.
func (p *part) find(hash uint64) int {
	high, _ := bits.Mul64(hash, uint64(len(p.table)))
	i := int(high)
	for p.table[i] != 0 && p.table[i] != hash {
		if i++; i == len(p.table) {
			i = 0
		}
	}
	return i
}

// grow moves the hashes into a table half as long again.
func (p *part) grow() {
	old := p.table
	p.table = make([]uint64, max(8, len(old)*3/2))
	for _, hash := range old {
		if hash != 0 {
			p.table[p.find(hash)] = hash
		}
	}
}
