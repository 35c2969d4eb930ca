// Package stream is the streaming client: it sends one request to an endpoint, in one of several APIs, reads the stream
// of frames that answers it, and says when each frame reached this machine.
//
// A frame's time is the kernel's: the time at which its last byte was received, not the time at which this program came
// round to reading it. So the times stay right when the program is busy, which is when every stream of a batching
// server sends at once. Where the kernel gives no stamp the program's time is taken and counted as such.
//
// Requests by HTTP/1.1 are written on the goroutine of their caller, on stamped connections that this package opens and
// keeps; net/http reads the heads of responses, TLS is crypto/tls's. The streams themselves are read by sweepers:
// goroutines of which each reads many sockets and pushes what came into the streams' parsers, from which a frame costs
// little more than the kernel asks. HTTP/2 is golang.org/x/net/http2's, over the same connections, one request at a
// time on each. Where that library reads ahead, the bytes are matched with the reads that brought them, so a frame's
// time is exact there too.
//
// It sends each request at most once, follows no redirect, asks for no compression and uses no proxy but the one it was
// given: load goes only where it was told to go. It decides neither when to send nor what the numbers mean; the agent's
// executor calls it and the agent's recorder takes in what it observed.
package stream

import (
	"time"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Config describes one target.
type Config struct {
	// Base URLs, http or https. The API's path is added unless the URL ends in it, or in its version, already.
	Endpoints []string
	// API of the endpoints: "chat", "completions", "responses", "sglang", "tgi", "triton" or "anthropic". Empty:
	// "chat".
	API string
	// Form of the prompts of completions and sglang: "token_ids" or "text". Empty: "token_ids". The prompts of chats
	// are messages whatever it says, those of tgi and triton are text.
	Prompts string
	// Model name sent in each request.
	Model string
	// Sent as "Authorization: Bearer KEY", or as the API wants it. Empty: no such header.
	APIKey string
	// Further headers. They go before the client's own of the same name; "Host" sets the host that is asked for.
	Headers map[string]string
	// Further fields of each request body. They go before the client's own of the same name, also within stream_options
	// and the object in which an API has its options; max_completion_tokens takes the place of max_tokens.
	Body map[string]any
	// Ask for exactly as many output tokens as AppendBody is given: by ignore_eos and min_tokens, or what an API calls
	// them. What Body says of either goes before it; there are no min_tokens where Body has ignore_eos or fixes the
	// length.
	ExactOutput bool
	// Ask for the usage so far in each frame, by stream_options.continuous_usage_stats of chat and completions. Other
	// APIs ignore it. What Body says of it goes before it.
	RunningUsage bool
	// Longest wait for DNS, TCP and TLS together. 0: 5 s.
	ConnectTimeout time.Duration
	// Longest time of one request. 0: 10 min.
	RequestTimeout time.Duration
	// Longest wait from the start of a request for its first token. 0: none but RequestTimeout.
	FirstTokenTimeout time.Duration
	// Longest silence of a stream after its first token: time without an event. 0: none but RequestTimeout.
	GapTimeout time.Duration
	// Most frames of one answer: a stream that goes on beyond fails with ERROR_CLASS_RUNAWAY. 0: 8 times
	// Request.Tokens, at least 4096. measure.MaxFrames bounds it in any case.
	MaxOutput int
	// Memory bounds what answers take beyond what was asked for. Nil: nothing does but MaxOutput.
	Memory *Memory
	// How connections are made and kept.
	Connection Connection
}

// Timeouts of a Config that names none.
const (
	defaultConnectTimeout = 5 * time.Second
	defaultRequestTimeout = 10 * time.Minute
)

// Request is one request to send.
type Request struct {
	// Index of the endpoint in the Config.
	Endpoint int
	// Sent as X-Request-Id. Empty: no such header.
	ID string
	// JSON body, as AppendBody makes it. Do does not keep it.
	Body []byte
	// Output tokens that it asks for, which bound the memory of its answer.
	Tokens uint32
	// Called before Do returns for each frame that may carry a token, with the time of the frame and its tokens as far
	// as the server's running usage tells them: TokensUntold where it does not. The goroutine that calls it reads other
	// streams too: it must not block. It may take what is in Observation.Lags and empty the list. May be nil.
	OnToken func(at clock.Instant, tokens int)
	// Called for the data of each event but [DONE], before it is looked into, on the goroutine that calls OnToken: at
	// is the time of the frame, seen the time at which the program had it. It must not block and must not keep data.
	// May be nil.
	OnFrame func(data []byte, at, seen clock.Instant)
	// Fill in Observation.Answer.
	KeepAnswer bool
}

// TokensUntold is what OnToken gets for a frame whose number of tokens no running usage tells.
const TokensUntold = -1

// Observation is what became of one request. Do fills it; its slices are reused when it is handed to Do again. What
// each frame changes comes first.
type Observation struct {
	// Frames of the stream, in the order of their arrival: all that carry a token and all that vLLM's client takes the
	// time of. Others may stand among them.
	Frames []Frame
	// Program's read time - kernel's receive time, in nanoseconds, once for each stamped read with a frame that may
	// carry a token, but those that Request.OnToken has taken.
	Lags []int64
	// First token: the first frame that carries one, with or without text.
	FirstToken clock.Instant
	// Last token.
	LastToken clock.Instant
	// First frame with text of any kind. 0: none had any.
	FirstText clock.Instant
	// First frame with text of the answer, or with a tool call: behind the reasoning. 0: none had any.
	FirstAnswer clock.Instant
	// Frames that carry a token.
	TokenFrames uint64
	// Reads that held more than one token frame: of those the kernel keeps the time of the last only.
	CoalescedReads uint64
	// Token frames that are timed by the program's clock, for want of a stamp.
	UnstampedFrames uint64
	// Bytes of text that came, as JSON writes it.
	TextBytes uint64
	// Token frames of reasoning, before FirstAnswer.
	ReasoningFrames uint64
	// All token frames came in one read.
	OneRead bool
	// Tokens of the first token frame, by running usage: TokensUntold where it does not tell.
	HeadTokens int
	// When Do was called.
	Start clock.Instant
	// When the last byte of the request was handed to the kernel. This and the times below are 0 if it did not come to
	// that.
	Sent clock.Instant
	// First byte of the response head. Over HTTP/2 that of an interim one (103), if there was one.
	FirstByte clock.Instant
	// End of the stream, or the failure. Never 0.
	End clock.Instant
	// DNS, TCP and TLS together, if Connected.
	Connect time.Duration
	// The name lookup of it. 0: there was no name to look up, or no connection to open.
	DNS time.Duration
	// TCP's part of it, a proxy's CONNECT included. 0: not Connected.
	TCP time.Duration
	// TLS's part of it. 0: there is none, or no connection to open.
	TLS time.Duration
	// Round trip to the endpoint as the kernel measured it when the connection was made, if Connected. 0: not known.
	RTT time.Duration
	// The request was the first on its connection.
	Connected bool
	// Prompt tokens by the server's usage. 0 if it sent none.
	InputTokens uint64
	// Output tokens: by the server's last usage if Usage, else the count of token frames.
	OutputTokens uint64
	// The server told the tokens of the prompt and of the output.
	Usage bool
	// Frames without text may or may not have carried a token: neither the server's usage nor anything else tells. They
	// are not counted as token frames.
	Undecided bool
	// Output tokens that were reasoning, if HasReasoningTokens: by the server's usage, else by its running usage at the
	// first frame of the answer, else ReasoningFrames where each frame carried one token.
	ReasoningTokens uint64
	// ReasoningTokens is known, and there was reasoning.
	HasReasoningTokens bool
	// Prompt tokens that the server had in its prefix cache, by its last usage that told them, if HasCachedTokens.
	CachedTokens uint64
	// The server told CachedTokens.
	HasCachedTokens bool
	// The server answered with one JSON body instead of a stream. FirstToken and LastToken are then the arrival of that
	// body, and nothing is known of the time between tokens, nor of the time to the first.
	Whole bool
	// What the server said of its own times within the stream, as Dynamo does.
	Server ServerTiming
	// Status of the response. 0: there was none.
	HTTPStatus int
	// Finish reason the server gave, if any.
	FinishReason string
	// With Request.KeepAnswer: the content of the answer's first choice, as far as it came, as it stood between the
	// quotes of the frames' JSON strings, escapes kept. It is sound between the quotes of a JSON string: bytes that are
	// no UTF-8 and surrogates without their other half are replaced by U+FFFD. Reasoning, tool calls, refusals and
	// content in parts are left out.
	Answer []byte
	// How the request failed. Nil: it did not, or it was cancelled.
	Err *Error
	// The caller's context ended before the stream did.
	Cancelled bool
}

// reset forgets the request before and keeps the memory.
func (o *Observation) reset() {
	*o = Observation{Frames: o.Frames[:0], Lags: o.Lags[:0], Answer: o.Answer[:0]}
}

// Gaps appends the times between consecutive token frames, in nanoseconds, to a slice and returns it.
func (o *Observation) Gaps(to []int64) []int64 {
	var last clock.Instant
	for _, f := range o.Frames {
		if !f.Token() {
			continue
		}
		if last != 0 {
			to = append(to, f.At().Sub(last).Nanoseconds())
		}
		last = f.At()
	}
	return to
}

// Frame is one frame of a stream: when it arrived and what it is.
type Frame int64

const (
	frameToken Frame = 1 << iota // it carries a token
	frameChunk                   // vLLM's client takes its time
	frameBlank                   // it has no text: whether it carries a token is decided at the stream's end
	frameBits  = iota
)

// NewFrame returns a frame. token: it carries a token. chunk: vLLM's client takes its time.
func NewFrame(at clock.Instant, token, chunk bool) Frame {
	f := Frame(at) << frameBits
	if token {
		f |= frameToken
	}
	if chunk {
		f |= frameChunk
	}
	return f
}

// At is when the frame arrived.
func (f Frame) At() clock.Instant { return clock.Instant(f >> frameBits) }

// Token reports whether the frame carries a token.
func (f Frame) Token() bool { return f&frameToken != 0 }

// Chunk reports whether vLLM's benchmark client takes the time of the frame. It does so for each frame with choices,
// whether a token comes with it or not.
func (f Frame) Chunk() bool { return f&frameChunk != 0 }

// ServerTiming is what a server says of its own times within the stream. Unset where it does not.
type ServerTiming struct {
	// From the request's arrival at the server to its first token, to the start of its prefill, and to its end; and how
	// long the prefill took.
	TTFT, Queue, Total, Prefill *time.Duration
}

// Error says how a request failed.
type Error struct {
	// What kind of failure it was.
	Class spatev1.ErrorClass
	// Status of the response, for ERROR_CLASS_HTTP_STATUS.
	HTTPStatus int
	// What went wrong, in at most 512 bytes and without secrets.
	Message string
}

// Error implements error.
func (e *Error) Error() string { return e.Message }

// messageLimit is the longest message of an Error, in bytes.
const messageLimit = 512
