package stream

import (
	"math/bits"
	"sync"
)

// blocks pools large unused buffers by size, a power of two. Only answers longer than asked for need them. The agent's
// garbage collector runs rarely, so without the pool a few hostile servers could fill the memory with garbage.
var blocks [bits.UintSize]sync.Pool

// block returns a buffer of at least n bytes with undefined content.
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

// recycle takes a buffer that is no longer used. block returns it again if it is large.
func recycle(b []byte) {
	if n := cap(b); n > pooledSpace && n&(n-1) == 0 {
		b = b[:n]
		blocks[bits.Len(uint(n-1))].Put(&b)
	}
}

// grown returns a buffer of old's length and a capacity of at least n bytes, with a copy of old. It recycles old.
func grown(old []byte, n int) []byte {
	b := block(n)[:len(old)]
	copy(b, old)
	recycle(old)
	return b
}
