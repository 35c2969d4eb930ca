package stream

import (
	"errors"
	"fmt"
	"io"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Memory bounds the memory that the answers of one agent take beyond what was asked for. All clients of the agent share
// it. It is safe for concurrent use.
type Memory struct {
	limit int64
	used  atomic.Int64
}

// NewMemory returns a Memory with a limit in bytes.
func NewMemory(bytes int64) *Memory { return &Memory{limit: bytes} }

// reserve reserves n bytes if that stays within the limit, and reports whether it did. A nil Memory has no limit.
func (m *Memory) reserve(n int64) bool {
	if m == nil || m.used.Add(n) <= m.limit {
		return true
	}
	m.used.Add(-n)
	return false
}

// release returns n bytes that were reserved.
func (m *Memory) release(n int64) {
	if m != nil && n > 0 {
		m.used.Add(-n)
	}
}

const (
	// outputFactor and minOutput determine the default of Config.MaxOutput. Servers that send a frame for each
	// character need about five frames for a token.
	outputFactor, minOutput = 8, 4096
	// frameShare, for each frame allowed, and bodyShare bound the bytes of a body. Log probabilities of 20 tokens take
	// 3 KiB a frame.
	frameShare, bodyShare = 16 << 10, 1 << 20
	wholeShare            = 4 << 10  // bytes of a body in one piece, for each token asked for
	frameBytes            = 8        // size of a Frame
	freeBytes             = 64 << 10 // bytes that any answer may use for its buffers
	answerLimit           = 4 << 20  // longest text of an answer, or of its tool calls, that is kept, in bytes
)

// room bounds one answer: how many frames and bytes may still come, and how much memory it may hold.
type room struct {
	frames     int   // maximum of frames kept
	bytes      int64 // bytes of the body that may still come
	free       int   // bytes of memory not counted against the agent's Memory
	reserved   int64 // bytes reserved of the agent's Memory
	maxBody    int   // longest body in one piece, in bytes
	bodyBuffer int   // size of the buffer for a body in one piece
}

// roomFor returns the room of an answer to a request for that many output tokens.
func (c *Client) roomFor(tokens uint32) room {
	most := c.maxOutput
	if most == 0 {
		most = max(outputFactor*int(min(tokens, measure.MaxFrames)), minOutput)
	}
	most = min(most, measure.MaxFrames)
	asked := frameBytes * 2 * int(min(tokens, measure.MaxFrames))
	if c.dialect.NoOutput {
		tokens = measure.MaxFrames // a vector's size has nothing to do with tokens
	}
	whole := bodyShare + max(int(min(tokens, measure.MaxFrames)), c.maxOutput)*wholeShare
	return room{frames: most, bytes: bodyShare + int64(most)*frameShare, maxBody: min(whole, bodyLimit),
		free: asked + freeBytes}
}

// admit reports whether one more frame may be kept. If not, it fails the stream.
func (x *exchange) admit() bool {
	switch n := len(x.o.Frames); {
	case n >= x.room.frames:
		x.runaway(fmt.Sprintf("the answer exceeded %d frames, the target's max_output", x.room.frames))
		return false
	case n == cap(x.o.Frames):
		return x.reserve(frameBytes * n)
	}
	return true
}

// countBytes counts n received bytes of the body. It returns false, and fails the stream, if there are too many.
func (x *exchange) countBytes(n int) bool {
	if x.room.bytes -= int64(n); x.room.bytes >= 0 {
		return true
	}
	x.runaway(fmt.Sprintf("the answer exceeded %d KiB, the limit for a max_output of %d frames",
		(bodyShare+x.room.frames*frameShare)>>10, x.room.frames))
	return false
}

// reserve reserves memory for what the answer holds and for more bytes. It returns false, and fails the stream, if
// there is not enough.
func (x *exchange) reserve(more int) bool {
	o := x.o
	holds := frameBytes*cap(o.Frames) + cap(o.Answer) + cap(o.Calls) + x.events.Held() + x.room.bodyBuffer + more
	want := int64(holds-x.room.free) - x.room.reserved
	if want <= 0 {
		return true
	}
	if m := x.client.memory; !m.reserve(want) {
		x.runaway(fmt.Sprintf("the agent's %d MiB for answers longer than requested are used up: lower the target's "+
			"max_output, or add agents", m.limit>>20))
		return false
	}
	x.room.reserved += want
	return true
}

// runaway fails the stream because it exceeds a bound.
func (x *exchange) runaway(why string) {
	x.setError(spatev1.ErrorClass_ERROR_CLASS_RUNAWAY, x.withProgress(why))
}

// checkCounts reports whether a frame's token counts are possible. If not, it fails the stream.
func (x *exchange) checkCounts(f *api.Frame) bool {
	n := max(f.Input, f.Output, f.Cached, f.ReasoningTokens)
	if n <= measure.MaxTokens {
		return true
	}
	x.setError(spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE,
		fmt.Sprintf("the server's usage reports %d tokens: one answer cannot have more than %d", n, measure.MaxTokens))
	return false
}

// readAll reads a body in one piece, up to limit+1 bytes. The caller recycles the buffer.
func (x *exchange) readAll(body io.Reader, limit int) ([]byte, error) {
	data := make([]byte, 0, 4<<10)
	for len(data) <= limit {
		if len(data) == cap(data) {
			if !x.reserve(2 * cap(data)) {
				return data, nil
			}
			data = grown(data, 2*cap(data))
			x.room.bodyBuffer = cap(data)
		}
		n, err := body.Read(data[len(data):min(cap(data), limit+1)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return data, err
		}
	}
	return data, nil
}

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
