package dataset

import (
	"fmt"

	"github.com/spate-load/spate/workload/draw"
)

// maxPrefixes is the maximum number of different prompt starts. They take 10 to 15 bytes each while a file is built,
// at most 1 GiB.
const maxPrefixes = 1 << 26

// prefixes is the set of the starts of all prompts so far. Each start is a hash of its block ids, so that a block
// counts as seen only behind the same blocks as before, as in a prefix cache. (Among n starts, two have the same hash
// with a chance of n^2 / 2^65.)
type prefixes struct {
	seen  hashes
	block uint32 // tokens
	limit int
}

func newPrefixes(block uint32) *prefixes { return &prefixes{block: block, limit: maxPrefixes} }

// shared returns how many tokens at the start of a prompt were the start of an earlier prompt, and records the prompt.
// A last block that is shorter than the others counts as seen if it had the same length before, or is part of a whole
// block.
func (p *prefixes) shared(blocks []uint64, isl uint32) (uint32, error) {
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
