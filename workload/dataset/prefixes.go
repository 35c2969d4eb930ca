package dataset

import (
	"fmt"
	"math/bits"

	"github.com/spate-load/spate/workload/draw"
)

// This file finds how much of a prompt, given as blocks of tokens, began an earlier prompt.

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

// maxPrefixes is the maximum number of different prompt starts. They take 10 to 15 bytes each while a file is built,
// at most 1 GiB.
const maxPrefixes = 1 << 26

// knownPrefixes is the set of the starts of all prompts so far. Each start is a hash of its block ids, so that a block
// counts as seen only behind the same blocks as before, as in a prefix cache. (Among n starts, two have the same hash
// with a chance of n^2 / 2^65.)
type knownPrefixes struct {
	seen  hashes
	block uint32 // tokens
	limit int
}

// newKnownPrefixes returns an empty set for blocks of so many tokens.
func newKnownPrefixes(block uint32) *knownPrefixes {
	return &knownPrefixes{block: block, limit: maxPrefixes}
}

// Shared returns how many tokens at the start of a prompt were the start of an earlier prompt, and records the prompt.
// A last block that is shorter than the others counts as seen if it had the same length before, or is part of a whole
// block.
func (p *knownPrefixes) Shared(blocks []uint64, isl uint32) (uint32, error) {
	tokens, chain, open := uint32(0), uint64(0), true
	for i, id := range blocks {
		chain = draw.Mix(chain ^ draw.Mix(id+1))
		key, size := chain, min(p.block, isl-uint32(i)*p.block)
		seen := false
		if size < p.block {
			seen, key = p.seen.has(chain), draw.Mix(chain+uint64(size))
		}
		seen = !p.seen.add(key) || seen
		if open = open && seen; open {
			tokens += size
		}
	}
	if p.seen.size > p.limit {
		return 0, fmt.Errorf("it has more than %d different blocks: split the trace into parts", p.limit)
	}
	return tokens, nil
}
