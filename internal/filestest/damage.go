// Package filestest damages files for tests, as disks and copies do, and keeps the generated parts of documentation.
// Only tests import it.
package filestest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Lines returns where the lines of a file end, as borders for Each.
func Lines(whole []byte) (borders []int) {
	for i, b := range whole {
		if b == '\n' {
			borders = append(borders, i+1)
		}
	}
	return borders
}

// Pages returns the ends of a file's pages of some size, as borders for Each.
func Pages(whole []byte, size int) (borders []int) {
	for at := size; at < len(whole); at += size {
		borders = append(borders, at)
	}
	return append(borders, len(whole))
}

// Each calls try with 500 damaged copies of a file, and with what was done to each. It logs the seed.
func Each(t *testing.T, whole []byte, borders []int, try func(damaged []byte, what string)) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		try(of(r, whole, borders))
	}
}

// of returns a damaged copy of a file whose units (records, pages) end at borders, and what was done to it: cut at a
// border or anywhere, a bit flipped, a unit zeroed, repeated, left out, or in the place of another one.
func of(r *rand.Rand, whole []byte, borders []int) (damaged []byte, what string) {
	unit := func() (from, to int) {
		i := r.IntN(len(borders))
		if i > 0 {
			from = borders[i-1]
		}
		return from, borders[i]
	}
	from, to := unit()
	other, end := unit()
	damaged = bytes.Clone(whole)
	switch r.IntN(7) {
	case 0:
		return damaged[:from], fmt.Sprintf("cut at the border %d of %d", from, len(whole))
	case 1:
		at := r.IntN(len(whole))
		return damaged[:at], fmt.Sprintf("cut at %d of %d", at, len(whole))
	case 2:
		at, bit := r.IntN(len(whole)), r.IntN(8)
		damaged[at] ^= 1 << bit
		return damaged, fmt.Sprintf("bit %d of byte %d flipped", bit, at)
	case 3:
		clear(damaged[from:to])
		return damaged, fmt.Sprintf("%d to %d zeroed", from, to)
	case 4:
		return slices.Insert(damaged, to, whole[from:to]...), fmt.Sprintf("%d to %d repeated", from, to)
	case 5:
		return slices.Delete(damaged, from, to), fmt.Sprintf("%d to %d left out", from, to)
	default:
		copy(damaged[from:to], whole[other:end])
		return damaged, fmt.Sprintf("%d to %d in the place of %d to %d", other, end, from, to)
	}
}
