package stream

import (
	"math/bits"
	"sync"
)

// blocks are large buffers that nobody uses, by the power of two of their size. Only answers longer than any that was
// asked for need them. An agent's collector seldom comes, so a few hostile servers would otherwise fill its memory with
// garbage.
var blocks [bits.UintSize]sync.Pool

// block returns a buffer of n bytes or more. What it holds is not defined.
func block(n int) []byte {
	if n <= pooledSpace {
		return make([]byte, n)
	}
	power := bits.Len(uint(n - 1))
	if b, ok := blocks[power].Get().(*[]byte); ok {
		return *b
	}
	return make([]byte, 1<<power)
}

// recycle takes a buffer that nobody uses any more, so that block can return it again if it is large.
func recycle(b []byte) {
	if n := cap(b); n > pooledSpace && n&(n-1) == 0 {
		b = b[:n]
		blocks[bits.Len(uint(n-1))].Put(&b)
	}
}

// grown returns a buffer of n bytes or more with what is in another, which it recycles.
func grown(old []byte, n int) []byte {
	b := block(n)[:len(old)]
	copy(b, old)
	recycle(old)
	return b
}
