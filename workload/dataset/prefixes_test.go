package dataset

import (
	"testing"

	"pgregory.net/rapid"
)

// TestSharedOracle compares shared prefixes with a scan of all earlier rows.
func TestSharedOracle(t *testing.T) {
	const block = 4
	rapid.Check(t, func(t *rapid.T) {
		type prompt struct {
			ids []uint64
			isl uint32
		}
		known := newKnownPrefixes(block)
		var before []prompt
		for range rapid.IntRange(1, 20).Draw(t, "rows") {
			p := prompt{ids: rapid.SliceOfN(rapid.Uint64Range(0, 2), 1, 5).Draw(t, "ids")}
			p.isl = uint32(len(p.ids)*block) - rapid.Uint32Range(0, block-1).Draw(t, "short")
			want := uint32(0)
			for _, q := range before {
				tokens := uint32(0)
				for i := 0; i < min(len(p.ids), len(q.ids)) && p.ids[i] == q.ids[i]; i++ {
					mine, other := min(block, p.isl-uint32(i*block)), min(block, q.isl-uint32(i*block))
					if other < block && mine != other {
						break // part of a block, and another part
					}
					tokens += mine
				}
				want = max(want, tokens)
			}
			before = append(before, p)
			if got, err := known.Shared(p.ids, p.isl); err != nil || got != want {
				t.Fatalf("%v shares %d tokens (%v), want %d", p, got, err, want)
			}
		}
	})
}

func TestTooManyBlocks(t *testing.T) {
	known := newKnownPrefixes(1)
	known.limit = 10
	if _, err := known.Shared([]uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := known.Shared([]uint64{0}, 1); err == nil {
		t.Fatal("no limit")
	}
}
