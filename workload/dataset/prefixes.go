package dataset

import "fmt"

// mostPrefixes is how many different beginnings of prompts are told apart. They take 10 to 15 bytes each while a file
// is built, 1 GiB at most.
const mostPrefixes = 1 << 26

// prefixes knows the beginnings of all prompts so far, each by a hash of the ids of its blocks, so that an id counts
// only behind the same ids as before, as in a prefix cache. (Of n beginnings two have one hash with a chance of n^2 /
// 2^65.)
type prefixes struct {
	seen  hashes
	block uint32 // tokens
	most  int
}

func newPrefixes(block uint32) *prefixes { return &prefixes{block: block, most: mostPrefixes} }

// shared returns how many of the first tokens of a prompt were the first of an earlier one, and remembers the prompt. A
// last block of fewer tokens than the others is found again if it is as long, or part of a whole one.
func (p *prefixes) shared(blocks []uint64, isl uint32) (uint32, error) {
	tokens, chain, open := uint32(0), uint64(0), true
	for i, id := range blocks {
		chain = mix(chain ^ mix(id+1))
		key, size := chain, min(p.block, isl-uint32(i)*p.block)
		seen := false
		if size < p.block {
			seen, key = p.seen.has(chain), mix(chain+uint64(size))
		}
		seen = !p.seen.add(key) || seen
		if open = open && seen; open {
			tokens += size
		}
	}
	if p.seen.size > p.most {
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
