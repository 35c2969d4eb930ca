package stream

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Memory is what the answers of one agent may take beyond what was asked for. Clients share it. It is safe for
// concurrent use.
type Memory struct {
	limit int64
	used  atomic.Int64
}

// NewMemory returns a Memory of some bytes.
func NewMemory(bytes int64) *Memory { return &Memory{limit: bytes} }

// take reports whether there is room for n more bytes, and takes them if there is. A nil Memory has no limit.
func (m *Memory) take(n int64) bool {
	if m == nil || m.used.Add(n) <= m.limit {
		return true
	}
	m.used.Add(-n)
	return false
}

// give returns bytes that were taken.
func (m *Memory) give(n int64) {
	if m != nil && n > 0 {
		m.used.Add(-n)
	}
}

const (
	// outputFactor and leastOutput are Config.MaxOutput where it is not given: servers that send a frame for each
	// character need some five frames a token.
	outputFactor, leastOutput = 8, 4096
	// frameShare and bodyShare bound the bytes of a body by its frames: log probabilities of 20 tokens take 3 KiB a
	// frame.
	frameShare, bodyShare = 16 << 10, 1 << 20
	wholeShare            = 4 << 10  // of a body in one piece, for each token asked for
	frameBytes            = 8        // of a Frame
	freeBytes             = 64 << 10 // that any answer may take for its buffers
	answerLimit           = 4 << 20  // bytes of the text that is kept for later turns
)

// room is what one answer may take: how many frames and bytes may come, and how much memory it holds.
type room struct {
	frames int   // most frames that are kept
	bytes  int64 // of the body that may still come
	free   int   // bytes of memory that are taken for granted
	taken  int64 // bytes of the agent's Memory
	whole  int   // bytes that a body in one piece may have
	body   int   // bytes that it holds
}

// roomFor returns the room of an answer to a request for some output tokens.
func (c *Client) roomFor(tokens uint32) room {
	most := c.maxOutput
	if most == 0 {
		most = max(outputFactor*int(min(tokens, measure.MaxFrames)), leastOutput)
	}
	most = min(most, measure.MaxFrames)
	asked := frameBytes * 2 * int(min(tokens, measure.MaxFrames))
	whole := bodyShare + max(int(min(tokens, measure.MaxFrames)), c.maxOutput)*wholeShare
	return room{frames: most, bytes: bodyShare + int64(most)*frameShare, whole: min(whole, bodyLimit),
		free: asked + freeBytes}
}

// admit reports whether one more frame may be kept. If not, the stream has failed.
func (x *exchange) admit() bool {
	switch n := len(x.o.Frames); {
	case n >= x.room.frames:
		x.runaway(fmt.Sprintf("the answer went on beyond %d frames, the target's max_output", x.room.frames))
		return false
	case n == cap(x.o.Frames):
		return x.weigh(frameBytes * n)
	}
	return true
}

// came takes in that bytes of the body came. It is false if they are too many: the stream has failed.
func (x *exchange) came(n int) bool {
	if x.room.bytes -= int64(n); x.room.bytes >= 0 {
		return true
	}
	x.runaway(fmt.Sprintf("the answer went on beyond %d KiB, which is more than max_output, %d frames, can take",
		(bodyShare+x.room.frames*frameShare)>>10, x.room.frames))
	return false
}

// weigh reports whether there is memory for what the answer holds and some more bytes. If not, the stream has failed.
func (x *exchange) weigh(more int) bool {
	o, e := x.o, &x.events
	holds := frameBytes*cap(o.Frames) + cap(o.Answer) + len(e.buf) + cap(e.joined) + x.room.body + more
	want := int64(holds-x.room.free) - x.room.taken
	if want <= 0 {
		return true
	}
	m := x.client.memory
	if !m.take(want) {
		x.runaway(fmt.Sprintf("answers that are longer than asked for fill the agent's %d MiB for them: lower the target's max_output, or add agents",
			m.limit>>20))
		return false
	}
	x.room.taken += want
	return true
}

// runaway ends the stream, which goes on beyond its bounds.
func (x *exchange) runaway(why string) {
	x.failed(spatev1.ErrorClass_ERROR_CLASS_RUNAWAY, x.progress(why))
}

// believe reports whether the numbers of a frame can be. If not, the stream has failed.
func (x *exchange) believe(f *frame) bool {
	n := max(f.input, f.output, f.cached, f.thought)
	if n <= measure.MaxTokens {
		return true
	}
	x.failed(spatev1.ErrorClass_ERROR_CLASS_OUT_OF_RANGE,
		fmt.Sprintf("the server's usage tells %d tokens: one answer cannot have more than %d", n, measure.MaxTokens))
	return false
}

// readAll reads a body in one piece, up to one byte more than the limit. The caller recycles it.
func (x *exchange) readAll(body io.Reader, limit int) ([]byte, error) {
	data := make([]byte, 0, 4<<10)
	for len(data) <= limit {
		if len(data) == cap(data) {
			if !x.weigh(2 * cap(data)) {
				return data, nil
			}
			data = grown(data, 2*cap(data))
			x.room.body = cap(data)
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
