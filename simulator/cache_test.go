package simulator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
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

// Prompts share the blocks of their common start and no others.
func TestBlocksDependOnPrefix(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 5).Draw(t, "size")
		ids := rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 40)
		common := ids.Draw(t, "common")
		a := slices.Concat(common, ids.Draw(t, "a"))
		b := slices.Concat(common, ids.Draw(t, "b"))
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		x, y := blocksOf(size, a), blocksOf(size, b)
		if len(x) != len(a)/size || len(y) != len(b)/size {
			t.Fatalf("%d and %d blocks of %d and %d tokens", len(x), len(y), len(a), len(b))
		}
		for i := range min(len(x), len(y)) {
			if equal := x[i] == y[i]; equal != ((i+1)*size <= same) {
				t.Fatalf("block %d of %d: equal is %v, the prompts share %d tokens", i, size, equal, same)
			}
		}
	})
}

func blocksOf(size int, ids []uint64) []uint64 {
	t := tokens{size: size}
	for _, id := range ids {
		t.add(id)
	}
	return t.blocks
}

// A prefill takes the time of the tokens that are not in the cache, at least one. Its blocks are in the cache when it
// has ended.
func TestEngineWithCache(t *testing.T) {
	m := changed(ticks(1, 0, 8), func(m *Model) { m.CacheBlockTokens, m.CacheBlocks = 4, 3 })
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
		s := &sequence{prompt: len(c.ids), output: 1, blocks: blocksOf(4, letters(c.ids))}
		e.add(s)
		from := e.now
		if c.cancel {
			e.advance(e.now, nil)
			e.cancel(s)
			continue
		}
		at := e.advance(e.now.Add(100*tick), nil)[0].at
		got = append(got, fmt.Sprintf("%d+%d", s.cached, int(at.Sub(from)/tick)))
	}
	want := "0+10 8+2 4+4 4+4 0+8 4+4 8+8 12+4"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("cached+prefill %s, want %s", s, want)
	}
}

func letters(s string) []uint64 {
	var ids []uint64
	for i := range len(s) {
		ids = append(ids, uint64(s[i]))
	}
	return ids
}
