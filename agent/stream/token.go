package stream

import (
	"sync"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// scratch are frames that are being read. Their memory is one that is at hand.
var scratch = sync.Pool{New: func() any { return new(frame) }}

// frame takes in one frame. It is false if the stream has failed.
func (x *exchange) frame(data []byte, read reading) bool {
	f := scratch.Get().(*frame) //nolint:forcetypeassert // the pool holds nothing else
	defer scratch.Put(f)
	if err := x.dialect.frame(data, f); err != nil {
		x.failed(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, "a frame that is none: "+err.Error()+": "+start(data))
		return false
	}
	if f.span != aPiece {
		f.answer = x.growth.added(f.answer, f.span)
		f.token = len(f.answer) > 0
	}
	if x.o.FirstFrame == 0 {
		x.o.FirstFrame, x.o.Led = read.at, !f.token
	}
	if f.failed || x.events.failed {
		if x.client.secrets.clean(f.fault) == "" { // nothing that can be read
			f.fault = start(data)
		}
		x.failed(spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR, f.fault)
		return false
	}
	x.usage(f)
	if len(f.finish) > 0 && x.o.FinishReason != string(f.finish) {
		x.o.FinishReason = string(f.finish)
	}
	if f.token {
		x.token(f, read)
	}
	if x.keepAnswer {
		x.o.Answer = append(x.o.Answer, f.answer...)
	}
	if f.end && !x.done {
		x.done, x.o.End = true, read.at
	}
	return true
}

// usage takes in what a frame tells of tokens. Some APIs tell those of the prompt and those of the output in different frames.
func (x *exchange) usage(f *frame) {
	if !f.inputTold && !f.cacheTold && !f.usage {
		return
	}
	if f.inputTold {
		x.inputTold, x.o.InputTokens = true, f.input
	}
	if f.cacheTold {
		x.o.HasCachedTokens, x.o.CachedTokens = true, f.cached
	}
	if f.usage {
		x.outputTold, x.o.OutputTokens = true, f.output
	}
	x.o.Usage = x.inputTold && x.outputTold
}

// start is the beginning of a frame, for a message.
func start(data []byte) string { return string(data[:min(len(data), messageLimit)]) }

// token takes in the time of a frame with token text.
func (x *exchange) token(f *frame, read reading) {
	o := x.o
	o.TokenFrames++
	x.read(read)
	if o.FirstToken == 0 {
		o.FirstToken = read.at
	} else {
		o.Gaps = append(o.Gaps, int64(read.at.Sub(o.LastToken)))
	}
	o.LastToken = read.at
	if x.onToken != nil {
		x.onToken(read.at, x.added(f))
	}
}

// read takes in the read that completed a frame with token text.
func (x *exchange) read(read reading) {
	o := x.o
	if !read.stamped {
		o.UnstampedFrames++
	}
	if read.number != x.lastAt {
		x.lastAt, x.shared = read.number, false
		if read.stamped {
			o.Lags = append(o.Lags, read.lag())
		}
		return
	}
	if !x.shared {
		x.shared = true
		o.CoalescedReads++
	}
}

// added returns how many tokens a frame brought: what the running usage says, or 1.
func (x *exchange) added(f *frame) int {
	tokens := uint64(1)
	if f.usage {
		tokens = max(f.output, x.counted) - x.counted
	}
	x.counted += tokens
	return int(tokens)
}
