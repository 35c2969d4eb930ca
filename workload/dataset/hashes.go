package dataset

import "math/bits"

// hashes is a set of hashes. It uses open addressing in parts that grow one at a time, so that growth never holds two
// whole tables in memory. A part is between half and four fifths full, which takes 10 to 15 bytes per hash.
type hashes struct {
	parts [256]part
	size  int
}

// part is a table with linear probing. 0 is an empty slot.
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

// add adds a hash and reports whether the hash is new.
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

// find returns the slot of a hash, or the empty slot where the hash belongs. The upper bits of a hash select the slot,
// the lower bits select the part.
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

// grow moves the hashes into a table of one and a half times the length.
func (p *part) grow() {
	old := p.table
	p.table = make([]uint64, max(8, len(old)*3/2))
	for _, hash := range old {
		if hash != 0 {
			p.table[p.find(hash)] = hash
		}
	}
}
