package engine

import (
	"fmt"
	"testing"

	"github.com/spate-load/spate/simulator/config"
)

// One op is one token of a batch of 256.
func BenchmarkEngine(b *testing.B) {
	m := config.Default().Model
	m.PrefillTokensPerSecond = 1e12
	e := newEngine(m, 0, 1, 0)
	for range m.MaxRunning {
		e.Add(&Sequence{Prompt: 1, Output: 1 << 60})
	}
	var out []Emission
	b.ReportAllocs()
	for n := 0; n < b.N; n += len(out) {
		at, _ := e.Next()
		out = e.Advance(at, out[:0])
	}
}

// One op is looking up and storing a prompt of 32,000 tokens in a full cache: with hits, and with as many evictions.
func BenchmarkPrefixCache(b *testing.B) {
	for _, hit := range []bool{true, false} {
		b.Run(fmt.Sprint("hit=", hit), func(b *testing.B) {
			cache := newPrefixCache(100_000)
			prompt := make([]uint64, 2000)
			b.ReportAllocs()
			for n := 0; b.Loop() || n < 100; n++ {
				for i := range prompt {
					prompt[i] = uint64(i + 1)
					if !hit {
						prompt[i] += uint64(n * len(prompt))
					}
				}
				cache.lookup(prompt)
				cache.store(prompt)
			}
		})
	}
}
