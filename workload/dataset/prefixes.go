package dataset

import "fmt"

// mostPrefixes is how many different beginnings of prompts are told apart. Each takes 10 to 20 bytes while a file is built, so that is about 1 GiB.
const mostPrefixes = 1 << 26

// prefixes knows the beginnings of all prompts so far, each by a hash of the ids of its blocks, so that an id counts only behind the same ids
// as before, as in a prefix cache.
type prefixes struct {
	seen  map[uint64]struct{}
	block uint32 // tokens
	most  int
}

func newPrefixes(block uint32) *prefixes {
	return &prefixes{seen: make(map[uint64]struct{}), block: block, most: mostPrefixes}
}

// shared returns how many of the first tokens of a prompt were the first of an earlier one, and remembers the prompt. A last block of fewer
// tokens than the others is found again if it is as long, or part of a whole one.
func (p *prefixes) shared(blocks []uint64, isl uint32) (uint32, error) {
	tokens, chain, open := uint32(0), uint64(0), true
	for i, id := range blocks {
		chain = mix(chain ^ mix(id+1))
		key, size := chain, min(p.block, isl-uint32(i)*p.block) //nolint:gosec // At most isl blocks.
		_, seen := p.seen[key]
		if size < p.block {
			key = mix(chain + uint64(size))
			_, part := p.seen[key]
			seen = seen || part
		}
		if open = open && seen; open {
			tokens += size
		}
		p.seen[key] = struct{}{}
	}
	if len(p.seen) > p.most {
		return 0, fmt.Errorf("more than %d different blocks: cut the trace into parts", p.most)
	}
	return tokens, nil
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
