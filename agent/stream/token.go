package stream

import (
	"fmt"
	"sync"
	"time"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// scratch pools frames for parsing, so that their memory is likely in the cache.
var scratch = sync.Pool{New: func() any { return new(frame) }}

// frame handles one frame. It returns false if the stream has failed.
func (x *exchange) frame(data []byte, read reading) bool {
	f := scratch.Get().(*frame) //nolint:forcetypeassert // the pool holds nothing else
	defer scratch.Put(f)
	if err := x.dialect.frame(data, f); err != nil {
		x.failed(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, "invalid frame: "+err.Error()+": "+start(data))
		return false
	}
	if f.span != aPiece {
		f.spread(&x.growth)
	}
	if f.failed || x.events.failed {
		if x.client.secrets.clean(f.fault) == "" { // no readable message
			f.fault = start(data)
		}
		x.failed(spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR, f.fault)
		return false
	}
	if !x.believe(f) || !x.admit() {
		return false
	}
	x.usage(f)
	x.finished(f.finish)
	x.place(f, read)
	if x.keepAnswer && !x.keep(f.answer) {
		return false
	}
	if len(f.timing) > 0 {
		x.o.Server.read(f.timing)
	}
	if f.end && !x.done {
		x.done, x.o.End = true, read.at
	}
	return true
}

// finished records a finish reason that is not empty.
func (x *exchange) finished(reason []byte) {
	if len(reason) > 0 && x.o.FinishReason != string(reason) {
		x.o.FinishReason = x.client.secrets.clean(string(reason))
	}
}

// keep keeps a piece of the answer for later turns. It returns false, and fails the stream, if there is no memory for
// the piece.
func (x *exchange) keep(answer []byte) bool {
	switch grown := len(x.o.Answer) + len(answer); {
	case grown > answerLimit:
		x.runaway(fmt.Sprintf("the answer's text exceeded %d MiB", answerLimit>>20))
		return false
	case grown > cap(x.o.Answer) && !x.weigh(grown):
		return false
	}
	x.o.Answer = append(x.o.Answer, answer...)
	return true
}

// usage records a frame's token counts. Some APIs report the prompt's and the output's tokens in different frames.
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
	if f.thoughtTold {
		x.thoughtTold, x.o.ReasoningTokens = true, f.thought
	}
	x.o.Usage = x.inputTold && x.outputTold
}

// start returns the start of a frame, for an error message.
func start(data []byte) string { return string(data[:min(len(data), messageLimit)]) }

// place classifies a frame, and records its time if it carries or may carry a token.
func (x *exchange) place(f *frame, read reading) {
	tokens := x.added(f)
	switch {
	case f.token || tokens > 0:
		x.closing = 0 // the earlier closing frame did not close the stream
		x.token(f, read, tokens)
	case !f.chunk && !f.closes, tokens == 0:
		x.append(f, read, 0)
	case f.closes || len(f.finish) > 0:
		x.close(f, read)
	case f.role && !x.begun:
		x.append(f, read, 0)
	default:
		x.blanks++
		x.arrived(f, read, frameBlank, tokens)
	}
	x.begun = x.begun || f.chunk
}

// added returns how many tokens a frame brought by the server's running usage, or TokensUnknown. Usage counts as running
// if every frame of the output so far had it, except a role frame. Usage in the last frame alone is not running usage.
func (x *exchange) added(f *frame) int {
	switch {
	case !f.chunk:
		return TokensUnknown
	case f.one && !f.usage:
		x.counted++
		return 1
	case !f.usage || x.silent:
		x.silent = x.silent || !f.role
		return TokensUnknown
	}
	tokens := max(f.output, x.counted) - x.counted
	x.counted += tokens
	return int(min(tokens, 1<<31))
}

// append keeps the time of a frame, for metrics as other benchmarks define them and for the decision at the end.
func (x *exchange) append(f *frame, read reading, kind Frame) {
	if f.chunk {
		kind |= frameChunk
	}
	if kind != 0 || f.closes {
		x.o.Frames = append(x.o.Frames, Frame(read.at)<<frameBits|kind)
	}
}

// close remembers the first frame that closes a stream: it may carry the last token, without text.
func (x *exchange) close(f *frame, read reading) {
	x.append(f, read, 0)
	if x.closing == 0 {
		x.closing, x.closingRead, x.closingBlank = len(x.o.Frames), read, f.blank
	}
}

// token handles a frame that carries a token.
func (x *exchange) token(f *frame, read reading, tokens int) {
	o := x.o
	if f.text > 0 && o.FirstText == 0 {
		o.FirstText = read.at
	}
	switch {
	case f.answered && o.FirstAnswer == 0:
		o.FirstAnswer, x.beforeAnswer = read.at, x.counted-uint64(max(tokens, 0))
	case f.reasoning && o.FirstAnswer == 0:
		o.ReasoningFrames++
	}
	o.TextBytes += uint64(f.text)
	if o.TokenFrames == 0 {
		o.HeadTokens = tokens
	}
	o.TokenFrames++
	x.arrived(f, read, frameToken, tokens)
}

// arrived records the time of a frame that carries or may carry a token.
func (x *exchange) arrived(f *frame, read reading, kind Frame, tokens int) {
	o := x.o
	x.append(f, read, kind)
	if o.FirstToken == 0 {
		o.FirstToken = read.at
	}
	o.LastToken = read.at
	x.read(read)
	if x.onToken != nil {
		x.onToken(read.at, tokens)
	}
}

// read records the read that completed such a frame.
func (x *exchange) read(read reading) {
	o := x.o
	if !read.stamped {
		o.UnstampedFrames++
	}
	if read.number != x.lastAt {
		x.reads++
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

// decide decides which frames without text carried a token, once the whole stream is known. docs/results.md has the
// rules, ordered by how much is known:
//
// If the usage counts at least as many tokens as there are frames with and without text, each frame carried a token. If
// it counts no more tokens than there are frames with text, the other frames carried none. Without usage, frames
// without text between frames with text count, since engines send a frame for each token. The closing frame counts if a
// token is left for it.
func (x *exchange) decide() {
	if x.decided {
		return
	}
	x.decided = true
	o := x.o
	if x.blanks > 0 || x.closing > 0 {
		x.settle()
	}
	o.InOneRead = o.TokenFrames > 1 && x.reads == 1
	x.reasoning()
}

// settle implements decide for a stream with frames without text or a closing frame.
func (x *exchange) settle() {
	o := x.o
	left := int64(o.OutputTokens) - int64(o.TokenFrames)
	if !x.outputTold {
		x.settleUntold()
		return
	}
	switch blanks := int64(x.blanks); {
	case blanks == 0:
	case left >= blanks:
		x.mark(func(int) bool { return true })
		left -= blanks
	default:
		o.Undecided = left > 0
		x.mark(func(int) bool { return false })
	}
	x.settleClosing(left)
}

// settleUntold implements settle for a stream without usage.
func (x *exchange) settleUntold() {
	first, last := -1, -1
	for i, f := range x.o.Frames {
		if f.Token() {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	x.mark(func(i int) bool { return i > first && i < last })
}

// settleClosing lets the closing frame carry a token that the usage leaves over, if the frame was timed like a token:
// at least a quarter of the mean gap after the frame before it. If exactly one token is left over, that suffices, since
// most frames carry one. If more are left over, frames carry several tokens; then the model must also have ended the
// output itself, and the frame must have a field for text.
func (x *exchange) settleClosing(left int64) {
	o := x.o
	if x.closing == 0 || left <= 0 {
		return
	}
	if o.TokenFrames > 0 {
		gap := x.closingRead.at.Sub(o.LastToken)
		mean := o.LastToken.Sub(o.FirstToken) / time.Duration(max(o.TokenFrames, 2)-1)
		if gap <= 0 || 4*gap < mean {
			return
		}
	}
	if left == 1 || o.TokenFrames > 0 && x.closingBlank && natural(o.FinishReason) {
		x.giveClosing()
	}
}

// natural reports whether a finish reason means that the model itself ended the output by a token.
func natural(reason string) bool {
	switch reason {
	case "stop", "eos_token", "end_turn", "completed", "stop_sequence", "tool_calls", "tool_use":
		return true
	}
	return false
}

// giveClosing counts the closing frame as a token frame.
func (x *exchange) giveClosing() {
	o := x.o
	o.Frames[x.closing-1] |= frameToken
	o.TokenFrames++
	o.LastToken = x.closingRead.at
	if o.FirstToken == 0 {
		o.FirstToken = o.LastToken
	}
	x.read(x.closingRead)
	if x.onToken != nil {
		x.onToken(x.closingRead.at, TokensUnknown)
	}
}

// mark decides each frame without text by its index in Frames.
func (x *exchange) mark(carries func(i int) bool) {
	for i, f := range x.o.Frames {
		if f&frameBlank == 0 {
			continue
		}
		x.o.Frames[i] &^= frameBlank
		if carries(i) {
			x.o.Frames[i] |= frameToken
			x.o.TokenFrames++
		}
	}
	x.bound()
}

// bound sets the first and the last token from Frames.
func (x *exchange) bound() {
	o := x.o
	o.FirstToken, o.LastToken = 0, 0
	for _, f := range o.Frames {
		if f.Token() {
			o.LastToken = f.At()
			if o.FirstToken == 0 {
				o.FirstToken = o.LastToken
			}
		}
	}
}

// reasoning determines how many tokens were reasoning.
func (x *exchange) reasoning() {
	o := x.o
	switch {
	case x.thoughtTold:
		o.HasReasoningTokens = o.ReasoningTokens > 0
	case o.ReasoningFrames == 0:
	case !x.silent && o.FirstAnswer != 0:
		o.ReasoningTokens, o.HasReasoningTokens = x.beforeAnswer, true
	case !x.outputTold || o.OutputTokens == o.TokenFrames:
		o.ReasoningTokens, o.HasReasoningTokens = o.ReasoningFrames, true
	}
}
