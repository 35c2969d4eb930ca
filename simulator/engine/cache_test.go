package engine

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/simulator/config"
)

// naiveCache is the prefix cache as a list, most recently used block first.
type naiveCache struct {
	capacity int
	blocks   []uint64
}

func (c *naiveCache) lookup(prompt []uint64) int {
	for i, hash := range prompt {
		if !slices.Contains(c.blocks, hash) {
			return i
		}
	}
	return len(prompt)
}

func (c *naiveCache) store(prompt []uint64) {
	for _, hash := range slices.Backward(prompt) {
		c.blocks = slices.DeleteFunc(c.blocks, func(b uint64) bool { return b == hash })
		c.blocks = slices.Insert(c.blocks, 0, hash)
		c.blocks = c.blocks[:min(len(c.blocks), c.capacity)]
	}
}

func TestCacheAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.IntRange(1, 8).Draw(t, "capacity")
		c, d := newPrefixCache(capacity), &naiveCache{capacity: capacity}
		for range rapid.IntRange(1, 60).Draw(t, "uses") {
			prompt := rapid.SliceOfNDistinct(rapid.Uint64Range(0, 12), 0, 10, rapid.ID).Draw(t, "prompt")
			if got, want := c.lookup(prompt), d.lookup(prompt); got != want {
				t.Fatalf("%v: %d blocks found, want %d of %v", prompt, got, want, d.blocks)
			}
			c.store(prompt)
			d.store(prompt)
			if len(c.place) != len(d.blocks) || len(c.blocks) > capacity+1 {
				t.Fatalf("%d blocks held in room for %d, want %d", len(c.place), len(c.blocks)-1, len(d.blocks))
			}
		}
	})
}

func TestNoCacheFindsNothing(t *testing.T) {
	c := newPrefixCache(0)
	c.store([]uint64{1})
	if n := c.lookup([]uint64{1}); n != 0 {
		t.Errorf("%d blocks found", n)
	}
}

// A prefill takes the time of the tokens that are not in the cache, at least one. Its blocks are in the cache when it
// has ended.
func TestEngineWithCache(t *testing.T) {
	m := changed(ticks(1, 0, 8), func(m *config.Model) { m.CacheBlockTokens, m.CacheBlocks = 4, 3 })
	e := newEngine(m, 0, 1, 0)
	var got []string
	for _, c := range []struct {
		ids    string
		cancel bool
	}{
		{"aaaabbbbcc", false}, {"aaaabbbbcc", false}, {"aaaabbbb", false}, {"aaaacccc", false},
		{"xaaabbbb", true}, {"xaaabbbb", false},
		{"aaaabbbb", false}, // two new blocks have evicted all but the most recently used of three: a prompt's first
		{"aaaabbbbccccdddd", false}, {"aaaabbbbccccdddd", false},
	} {
		s := &Sequence{Prompt: len(c.ids), Output: 1, Blocks: blocksOf(4, c.ids)}
		e.Add(s)
		from := e.now
		if c.cancel {
			e.Advance(e.now, nil)
			e.Cancel(s)
			continue
		}
		at := e.Advance(e.now.Add(100*tick), nil)[0].At
		got = append(got, fmt.Sprintf("%d+%d", s.Cached, int(at.Sub(from)/tick)))
	}
	want := "0+10 8+2 4+4 4+4 0+8 4+4 8+8 12+4"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("cached+prefill %s, want %s", s, want)
	}
}

// blocksOf returns a number for each whole block of a prompt, which depends on the prompt up to the block's end.
func blocksOf(size int, prompt string) []uint64 {
	var blocks []uint64
	for end := size; end <= len(prompt); end += size {
		h := fnv.New64a()
		_, _ = h.Write([]byte(prompt[:end])) // a hash never fails
		blocks = append(blocks, h.Sum64())
	}
	return blocks
}
