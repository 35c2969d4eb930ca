package simulator

// prefixCache is the prefix cache of one engine: blocks of prompt tokens by the chained hash of all tokens up to their
// ends, so that a block is found only behind the same prefix. It holds a number of blocks and then loses the one that
// was used longest ago; of one prompt, the last first, as a block is of no use without those before it. Unlike a real
// engine's it does not compete with the sequences under way for memory, and it does not keep the output.
//
// A nil cache holds nothing. It is not safe for concurrent use.
type prefixCache struct {
	capacity int
	place    map[uint64]int32 // of a block in blocks
	// blocks is a ring in order of use: blocks[0] is its joint, behind it the block used last, before it the one used
	// longest ago.
	blocks []cacheBlock
}

type cacheBlock struct {
	hash         uint64
	newer, elder int32
}

func newPrefixCache(capacity int) *prefixCache {
	if capacity == 0 {
		return nil
	}
	return &prefixCache{capacity: capacity, place: map[uint64]int32{}, blocks: make([]cacheBlock, 1)}
}

// lookup returns how many of the prompt's blocks the cache has, from the first on without a gap.
func (c *prefixCache) lookup(prompt []uint64) int {
	if c == nil {
		return 0
	}
	for i, hash := range prompt {
		if _, ok := c.place[hash]; !ok {
			return i
		}
	}
	return len(prompt)
}

// store puts the prompt's blocks in, or makes them the ones used last.
func (c *prefixCache) store(prompt []uint64) {
	if c == nil {
		return
	}
	for i := len(prompt) - 1; i >= 0; i-- {
		c.use(prompt[i])
	}
}

func (c *prefixCache) use(hash uint64) {
	i, ok := c.place[hash]
	switch {
	case ok:
		c.unlink(i)
	case len(c.blocks) <= c.capacity:
		i = int32(len(c.blocks))
		c.blocks = append(c.blocks, cacheBlock{hash: hash})
		c.place[hash] = i
	default:
		i = c.blocks[0].newer
		c.unlink(i)
		delete(c.place, c.blocks[i].hash)
		c.blocks[i].hash = hash
		c.place[hash] = i
	}
	c.link(i)
}

// unlink takes a block out of the ring.
func (c *prefixCache) unlink(i int32) {
	b := c.blocks[i]
	c.blocks[b.newer].elder = b.elder
	c.blocks[b.elder].newer = b.newer
}

// link puts a block in as the one used last.
func (c *prefixCache) link(i int32) {
	last := c.blocks[0].elder
	c.blocks[i].newer, c.blocks[i].elder = 0, last
	c.blocks[last].newer = i
	c.blocks[0].elder = i
}
