package engine

// prefixCache is the prefix cache of one engine. It holds blocks of prompt tokens by the chained hash of all tokens up
// to their ends, so that a block is found only behind the same prefix. When it is full, it drops the least recently
// used block; among the blocks of one prompt the last first, because a block is useless without those before it. Unlike
// a real engine's cache, it does not compete with running sequences for memory, and it does not keep the output.
//
// A nil cache holds nothing. It is not safe for concurrent use.
type prefixCache struct {
	capacity int
	place    map[uint64]int32 // index of a block in blocks
	// blocks is a ring in order of use. blocks[0] is the sentinel: its elder is the most recently used block, its newer
	// the least recently used one.
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

// lookup returns how many of the prompt's first blocks the cache has without a gap.
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

// store adds the prompt's blocks, or marks them as most recently used.
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
	last := c.blocks[0].elder // i becomes the most recently used one
	c.blocks[i].newer, c.blocks[i].elder = 0, last
	c.blocks[last].newer = i
	c.blocks[0].elder = i
}

// unlink removes a block from the ring.
func (c *prefixCache) unlink(i int32) {
	b := c.blocks[i]
	c.blocks[b.newer].elder = b.elder
	c.blocks[b.elder].newer = b.newer
}
