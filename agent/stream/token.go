package stream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spate-load/spate/agent/stream/socket"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/measure"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// scratch pools frames for parsing, so that their memory is likely in the cache.
var scratch = sync.Pool{New: func() any { return new(api.Frame) }}

// frame handles one frame. It returns false if the stream has failed.
func (x *exchange) frame(data []byte, read socket.Reading) bool {
	f := scratch.Get().(*api.Frame) //nolint:forcetypeassert // the pool holds nothing else
	defer scratch.Put(f)
	if err := x.api.Parse(api.Event{Name: x.events.Name, Data: data, Failed: x.events.Failed}, f); err != nil {
		x.setError(spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME, "invalid frame: "+err.Error()+": "+excerpt(data))
		return false
	}
	if f.Span != api.SpanPiece {
		f.TrimAnswer(&x.growth)
	}
	if f.Failed || x.events.Failed {
		if x.client.secrets.Clean(f.Fault) == "" { // no readable message
			f.Fault = excerpt(data)
		}
		x.setError(spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR, f.Fault)
		return false
	}
	if !x.checkCounts(f) || !x.admit() {
		return false
	}
	x.setServer(f)
	x.setUsage(f)
	if !x.setFinishReason(f) {
		return false
	}
	x.recordFrame(f, read)
	x.look(f.Answer)
	if x.keepAnswer && !x.keep(&x.o.Answer, f.Answer) {
		return false
	}
	if len(f.Calls) > 0 && !x.keep(&x.o.Calls, f.Calls) {
		return false
	}
	if f.End && !x.done {
		x.done, x.o.End = true, read.At
	}
	return true
}

// sameTokens is from how many frames in a row with equal text on an answer is garbled.
const sameTokens = 32

// Garbled reports whether the answer's text has replacement characters, or one token over and over.
func (o *Observation) Garbled() bool { return o.Replaced || o.SameTokens >= sameTokens }

// look looks for text that no model means.
func (x *exchange) look(text []byte) {
	if len(text) == 0 {
		return
	}
	piece := uint64(len(text))
	if cap(text) >= 8 { // what follows it in the frame does not count
		if piece = binary.LittleEndian.Uint64(text[:8]); len(text) < 8 {
			piece &= 1<<(8*len(text)) - 1
		}
	}
	if piece == x.piece && len(text) == x.pieceLength {
		x.same++
		x.o.SameTokens = max(x.o.SameTokens, x.same)
		return
	}
	x.piece, x.pieceLength, x.same = piece, len(text), 1
	if len(text) <= 8 && !has(piece, replacements[0][0]) && !has(piece, '\\') {
		return
	}
	if slices.ContainsFunc(replacements, func(r []byte) bool { return bytes.Contains(text, r) }) {
		x.o.Replaced = true
	}
}

// has reports whether one of eight bytes is b.
func has(eight uint64, b byte) bool {
	const ones = 0x0101010101010101
	zero := eight ^ uint64(b)*ones
	return (zero-ones)&^zero&(ones<<7) != 0
}

// replacements are the replacement character as it is, and escaped in JSON.
var replacements = [][]byte{[]byte("\uFFFD"), []byte(`\ufffd`), []byte(`\uFFFD`)}

// setServer records what a frame says about the server: its model, and its own timings.
func (x *exchange) setServer(f *api.Frame) {
	if !x.modelKnown && jsonscan.Filled(f.Model) {
		x.modelKnown, x.o.Model = true, x.client.modelName(f.Model)
	}
	if len(f.Timing) > 0 {
		x.o.Server.read(f.Timing)
	}
}

// setFinishReason records a finish reason that is not empty. It returns false, and fails the stream, if the server
// ended the answer early.
func (x *exchange) setFinishReason(f *api.Frame) bool {
	if len(f.Finish) == 0 || x.o.FinishReason == string(f.Finish) {
		return true
	}
	x.o.FinishReason = x.client.secrets.Clean(string(f.Finish))
	x.o.Ending = api.EndingOf(x.o.FinishReason)
	if x.o.Ending != api.EndingAborted {
		return true
	}
	why := ""
	if f.Fault != "" {
		why = ": " + f.Fault
	}
	x.setError(spatev1.ErrorClass_ERROR_CLASS_ABORTED,
		x.withProgress(fmt.Sprintf("the server ended the answer early, finish reason %q%s", x.o.FinishReason, why)))
	return false
}

// models are the models that answers named, by the JSON value.
type models struct {
	mu    sync.Mutex
	names map[string]string
}

// modelName returns the name in a JSON value, or measure.OtherModels if the client knows too many already.
func (c *Client) modelName(value []byte) string {
	c.models.mu.Lock()
	defer c.models.mu.Unlock()
	name, known := c.models.names[string(value)]
	switch {
	case known:
		return name
	case len(c.models.names) >= measure.MaxModels:
		return measure.OtherModels
	case c.models.names == nil:
		c.models.names = make(map[string]string)
	}
	name = c.secrets.Clean(jsonscan.Text(value))
	c.models.names[string(value)] = name
	return name
}

// keep keeps a piece of the answer's text or of its tool calls. It returns false, and fails the stream, if there is no
// memory for the piece.
func (x *exchange) keep(all *[]byte, piece []byte) bool {
	switch grown := len(*all) + len(piece); {
	case grown > answerLimit:
		x.runaway(fmt.Sprintf("the answer's text exceeded %d MiB", answerLimit>>20))
		return false
	case grown > cap(*all) && !x.reserve(grown):
		return false
	}
	*all = append(*all, piece...)
	return true
}

// setUsage records a frame's token counts. Some APIs report the prompt's and the output's tokens in different frames.
func (x *exchange) setUsage(f *api.Frame) {
	if !f.HasInput && !f.HasCached && !f.HasOutput {
		return
	}
	if f.HasInput {
		x.hasInput, x.o.InputTokens = true, f.Input
	}
	if f.HasCached {
		x.o.HasCachedTokens, x.o.CachedTokens = true, f.Cached
	}
	if f.HasOutput {
		x.hasOutput, x.o.OutputTokens = true, f.Output
	}
	if f.HasReasoningTokens {
		x.hasReasoningTokens, x.o.ReasoningTokens = true, f.ReasoningTokens
	}
	x.o.Usage = x.hasInput && (x.hasOutput || x.api.NoOutput)
}

// excerpt returns the start of a frame, for an error message.
func excerpt(data []byte) string { return string(data[:min(len(data), messageLimit)]) }

// recordFrame classifies a frame, and records its time if it carries or may carry a token.
func (x *exchange) recordFrame(f *api.Frame, read socket.Reading) {
	tokens := x.tokensAdded(f)
	switch {
	case f.Token || tokens > 0:
		x.closing = 0 // the earlier closing frame did not close the stream
		x.token(f, read, tokens)
	case !f.Chunk && !f.Closes, tokens == 0:
		x.append(f, read, 0)
	case f.Closes || len(f.Finish) > 0:
		x.close(f, read)
	case f.Role && !x.begun:
		x.append(f, read, 0)
	default:
		x.undecided++
		x.arrived(f, read, frameUndecided, tokens)
	}
	x.begun = x.begun || f.Chunk
}

// tokensAdded returns how many tokens a frame brought by the server's running usage, or TokensUnknown. Usage counts as
// running if every frame of the output so far had it, except a role frame. Usage in the last frame alone is not running
// usage.
func (x *exchange) tokensAdded(f *api.Frame) int {
	switch {
	case !f.Chunk:
		return TokensUnknown
	case f.OneToken && !f.HasOutput:
		x.runningTokens++
		return 1
	case !f.HasOutput || x.noRunningUsage:
		x.noRunningUsage = x.noRunningUsage || !f.Role
		return TokensUnknown
	}
	tokens := max(f.Output, x.runningTokens) - x.runningTokens
	x.runningTokens += tokens
	return int(min(tokens, 1<<31))
}

// append keeps the time of a frame, for metrics as other benchmarks define them and for the decision at the end.
func (x *exchange) append(f *api.Frame, read socket.Reading, kind Frame) {
	if kind != 0 || f.Chunk || f.Closes {
		x.o.Frames = append(x.o.Frames, NewFrame(read.At, false, f.Chunk)|kind)
	}
}

// close remembers the first frame that closes a stream: it may carry the last token, without text.
func (x *exchange) close(f *api.Frame, read socket.Reading) {
	x.append(f, read, 0)
	if x.closing == 0 {
		x.closing, x.closingRead, x.closingEmptyText = len(x.o.Frames), read, f.EmptyText
	}
}

// token handles a frame that carries a token.
func (x *exchange) token(f *api.Frame, read socket.Reading, tokens int) {
	o := x.o
	if f.TextBytes > 0 && o.FirstText == 0 {
		o.FirstText = read.At
	}
	switch {
	case f.HasAnswer && o.FirstAnswer == 0:
		o.FirstAnswer, x.beforeAnswer = read.At, x.runningTokens-uint64(max(tokens, 0))
	case f.Reasoning && o.FirstAnswer == 0:
		o.ReasoningFrames++
	}
	o.TextBytes += uint64(f.TextBytes)
	if o.TokenFrames == 0 {
		o.HeadTokens = tokens
	}
	o.TokenFrames++
	x.arrived(f, read, frameToken, tokens)
}

// arrived records the time of a frame that carries or may carry a token.
func (x *exchange) arrived(f *api.Frame, read socket.Reading, kind Frame, tokens int) {
	o := x.o
	x.append(f, read, kind)
	if o.FirstToken == 0 {
		o.FirstToken = read.At
	}
	o.LastToken = read.At
	x.countRead(read)
	if x.onToken != nil {
		x.onToken(read.At, tokens)
	}
}

// countRead records the read that completed such a frame.
func (x *exchange) countRead(read socket.Reading) {
	o := x.o
	if !read.Stamped {
		o.UnstampedFrames++
	}
	o.LateLast = !read.Stamped
	o.LateFirst = o.LateFirst || x.reads == 0 && !read.Stamped
	if read.Packet {
		o.PacketFrames++
	}
	if read.Number != x.lastRead {
		x.reads++
		x.lastRead, x.coalesced = read.Number, false
		if read.Stamped {
			o.Lags = append(o.Lags, read.Lag())
		}
		return
	}
	if !read.Packet {
		o.SharedFrames++
		o.LateFirst = o.LateFirst || x.reads == 1
	}
	if !x.coalesced {
		x.coalesced = true
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
	if x.hasOutput && o.OutputTokens == 0 && o.TokenFrames > 0 {
		x.hasOutput, x.noRunningUsage, o.Usage = false, true, false // a placeholder: the tokens arrived
	}
	if x.undecided > 0 || x.closing > 0 {
		x.decideUndecided()
	}
	span := heldGap * time.Duration(o.TokenFrames-1)
	o.WrittenAtOnce = o.TokenFrames > 1 && (x.reads == 1 || o.LastToken.Sub(o.FirstToken) < span)
	x.reasoning()
}

// heldGap is the mean gap between token frames below which a server held them back and wrote them at once, though
// packets split what it wrote: no engine makes 50,000 tokens a second for one request.
const heldGap = 20 * time.Microsecond

// decideUndecided implements decide for a stream with frames without text or a closing frame.
func (x *exchange) decideUndecided() {
	o := x.o
	left := int64(o.OutputTokens) - int64(o.TokenFrames)
	if !x.hasOutput {
		x.decideWithoutUsage()
		return
	}
	switch undecided := int64(x.undecided); {
	case undecided == 0:
	case left >= undecided:
		x.decideFrames(func(int) bool { return true })
		left -= undecided
	default:
		o.Undecided = left > 0
		x.decideFrames(func(int) bool { return false })
	}
	x.decideClosing(left)
}

// decideWithoutUsage implements decideUndecided for a stream without usage.
func (x *exchange) decideWithoutUsage() {
	first, last := -1, -1
	for i, f := range x.o.Frames {
		if f.Token() {
			last = i
			if first < 0 {
				first = i
			}
		}
	}
	x.decideFrames(func(i int) bool { return i > first && i < last })
}

// decideClosing lets the closing frame carry a token that the usage leaves over, if the frame was timed like a token:
// at least a quarter of the mean gap after the frame before it. If exactly one token is left over, that suffices, since
// most frames carry one. If more are left over, frames carry several tokens; then the model must also have ended the
// output itself, and the frame must have a field for text.
func (x *exchange) decideClosing(left int64) {
	o := x.o
	if x.closing == 0 || left <= 0 {
		return
	}
	if o.TokenFrames > 0 {
		gap := x.closingRead.At.Sub(o.LastToken)
		mean := o.LastToken.Sub(o.FirstToken) / time.Duration(max(o.TokenFrames, 2)-1)
		if gap <= 0 || 4*gap < mean {
			return
		}
	}
	byModel := o.Ending == api.EndingStop || o.Ending == api.EndingToolCalls
	if left == 1 || o.TokenFrames > 0 && x.closingEmptyText && byModel {
		x.countClosing()
	}
}

// countClosing counts the closing frame as a token frame.
func (x *exchange) countClosing() {
	o := x.o
	o.Frames[x.closing-1] |= frameToken
	o.TokenFrames++
	o.LastToken = x.closingRead.At
	if o.FirstToken == 0 {
		o.FirstToken = o.LastToken
	}
	x.countRead(x.closingRead)
	if x.onToken != nil {
		x.onToken(x.closingRead.At, TokensUnknown)
	}
}

// decideFrames decides each frame without text by its index in Frames.
func (x *exchange) decideFrames(carries func(i int) bool) {
	for i, f := range x.o.Frames {
		if f&frameUndecided == 0 {
			continue
		}
		x.o.Frames[i] &^= frameUndecided
		if carries(i) {
			x.o.Frames[i] |= frameToken
			x.o.TokenFrames++
		}
	}
	x.setTokenTimes()
}

// setTokenTimes sets the first and the last token from Frames.
func (x *exchange) setTokenTimes() {
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
	case x.hasReasoningTokens:
		o.HasReasoningTokens = o.ReasoningTokens > 0
	case o.ReasoningFrames == 0:
	case !x.noRunningUsage && o.FirstAnswer != 0:
		o.ReasoningTokens, o.HasReasoningTokens = x.beforeAnswer, true
	case !x.hasOutput || o.OutputTokens == o.TokenFrames:
		o.ReasoningTokens, o.HasReasoningTokens = o.ReasoningFrames, true
	}
}
