// Package stream is the streaming client. It sends one request to an endpoint, in one of several APIs, reads the stream
// of frames that the endpoint answers with, and records when each frame reached this machine.
//
// A frame's time is the kernel's receive time of its last byte, not the time at which this program read that byte. So
// the times stay right when the program is busy, and it is busiest when all streams of a batching server send at once.
// Where the kernel gives no timestamp, the program's clock is used, and the frame is counted as unstamped.
//
// HTTP/1.1 requests are written on the caller's goroutine, on timestamped connections that package wire opens and
// keeps. net/http parses the heads of responses; TLS is crypto/tls. The streams themselves are read by sweepers: each
// sweeper is a goroutine that reads many sockets and pushes the bytes into the streams' parsers, so that a frame costs
// little more than its system call. HTTP/2 is golang.org/x/net/http2 over the same connections, with one request at a
// time on each. That library reads ahead, so its bytes are matched with the reads that brought them: a frame's time is
// exact there too.
//
// The client sends each request once, and once more only if a kept connection ends before any byte of an answer. It
// follows no redirect, asks for no compression and uses no proxy except the configured one: load goes only where the
// plan sends it. The client decides neither when to send nor what the numbers mean. The agent's executor calls it, and
// the agent's recorder takes its observations.
package stream

import (
	"encoding/json"
	"math"
	"time"

	"github.com/spate-load/spate/agent/stream/wire"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// Config describes one target.
type Config struct {
	// Base URLs, http or https. The API's path is added unless the URL already ends in it. A version (/v1, /v2) at the
	// end of the URL is replaced by the path.
	Endpoints []string
	// API of the endpoints: one of registry.Names. Empty: "chat".
	API string
	// What the plan says about the API, if it is template.Name.
	Template registry.Template
	// Form of the prompts: "token_ids" or "text". Empty: the API's default, "token_ids" for completions and sglang. tgi
	// and triton accept only "text". APIs whose prompts are messages ignore it.
	Prompts string
	// Ask for answers in one piece instead of streams.
	Whole bool
	// Model name sent in each request.
	Model string
	// Sent as "Authorization: Bearer KEY", in the header that the API uses, or used to sign each request. Empty: not
	// sent.
	APIKey string
	// Additional headers. They override the client's own headers of the same name. "Host" sets the host of the request.
	Headers map[string]string
	// Additional fields of each request body. They override the client's own fields of the same name, also within
	// stream_options and within the object that holds an API's options. max_completion_tokens replaces max_tokens.
	Body map[string]any
	// Variants of requests' bodies, which AppendVariant writes. Nil: there is one, without anything of its own.
	Variants []content.Variant
	// Ask for exactly as many output tokens as AppendBody is given, by ignore_eos and min_tokens or the API's names for
	// them. Body overrides both. min_tokens is left out if Body has ignore_eos or fixes the length.
	ExactOutput bool
	// Ask for running usage in each frame, by stream_options.continuous_usage_stats of chat and completions. Other APIs
	// ignore it. Body overrides it.
	RunningUsage bool
	// Longest wait for DNS, TCP and TLS together. 0: 5 s.
	ConnectTimeout time.Duration
	// Longest time of one request. 0: 10 min.
	RequestTimeout time.Duration
	// Longest wait from the start of a request for its first token. 0: none but RequestTimeout.
	FirstTokenTimeout time.Duration
	// Longest silence of a stream after its first token: time without an event. 0: none but RequestTimeout.
	GapTimeout time.Duration
	// Most frames of one answer. A longer stream fails with ERROR_CLASS_RUNAWAY. 0: 8 times Request.Tokens, at least
	// 4096. measure.MaxFrames is an upper bound in any case.
	MaxOutput int
	// Memory bounds the memory that answers take beyond what was asked for. Nil: only MaxOutput bounds it.
	Memory *Memory
	// How connections are made and kept.
	Connection wire.Settings
}

// Timeouts used where a Config sets none.
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
	// Output tokens that the request asks for. They bound the memory of its answer.
	Tokens uint32
	// Called, before Do returns, for each frame that may carry a token, with the frame's time and its number of tokens
	// by the server's running usage, or TokensUnknown if that is not known. It must not block: the goroutine that calls
	// it reads other streams too. It may consume Observation.Lags and empty that list. May be nil.
	OnToken func(at clock.Instant, tokens int)
	// Called for the data of each event except [DONE], before the data is parsed, on the goroutine that calls OnToken.
	// at is the frame's time, seen is when the program had read it. It must not block and must not keep data. May be
	// nil.
	OnFrame func(data []byte, at, seen clock.Instant)
	// Record the answer's text in Observation.Answer.
	KeepAnswer bool
}

// TokensUnknown is passed to OnToken for a frame whose number of tokens is not known from running usage.
const TokensUnknown = -1

// Observation is what became of one request. Do fills it, and reuses its slices when it is passed to Do again. The
// fields that each frame changes come first.
type Observation struct {
	// Frames of the stream in order of arrival: all that carry a token, and all that vLLM's benchmark client
	// timestamps. There may be other frames among them.
	Frames []Frame
	// Program's read time - kernel's receive time, in nanoseconds, one entry for each stamped read with a frame that
	// may carry a token. Entries that Request.OnToken has consumed are missing.
	Lags []int64
	lag  [1]int64 // memory for Lags, which is seldom longer if OnToken consumes them
	// First token: the first frame that carries one, with or without text.
	FirstToken clock.Instant
	// Last token.
	LastToken clock.Instant
	// First frame with text of any kind. 0: none had any.
	FirstText clock.Instant
	// First frame with text of the answer, or with a tool call, after the reasoning. 0: none had any.
	FirstAnswer clock.Instant
	// Frames that carry a token.
	TokenFrames uint64
	// Token frames with the time of the packet that carried their last byte. See wire.Settings.PacketTimes.
	PacketFrames uint64
	// Bytes of text received, as encoded in JSON.
	TextBytes uint64
	// Token frames of reasoning, before FirstAnswer.
	ReasoningFrames uint64
	// The first token frame has no time of its own: it is a shared frame, or lacks the kernel's timestamp.
	LateFirst bool
	// The last token frame lacks the kernel's timestamp.
	LateLast bool
	// All token frames came in one read, or so fast that they were written at once.
	WrittenAtOnce bool
	// Reads that held more than one token frame. Without the times of packets, only the last of them has its own time.
	CoalescedReads uint64
	// Token frames without a kernel timestamp, timed by the program's clock.
	UnstampedFrames uint64
	// Token frames that share the time of a later one: they were read together, and have no times of packets.
	SharedFrames uint64
	// Tokens of the first token frame by running usage. TokensUnknown: not known.
	HeadTokens int
	// When Do was called.
	Start clock.Instant
	// When the last byte of the request was handed to the kernel. This and the times below are 0 if that did not
	// happen.
	Sent clock.Instant
	// First byte of the response head. Over HTTP/2 it is the first byte of an interim response (103), if there was one.
	FirstByte clock.Instant
	// End of the stream, or the failure. Never 0.
	End clock.Instant
	// DNS, TCP and TLS together, if Connected.
	Connect time.Duration
	// The part of Connect that was the name lookup. 0: no name to look up, or no connection to open.
	DNS time.Duration
	// The part of Connect that was TCP, a proxy's CONNECT included. 0: not Connected.
	TCP time.Duration
	// The part of Connect that was TLS. 0: no TLS, or no connection to open.
	TLS time.Duration
	// Round trip to the endpoint as the kernel measured it when the connection was made, if Connected. 0: not known.
	RTT time.Duration
	// The request was the first on its connection.
	Connected bool
	// Prompt tokens by the server's usage. 0: not reported.
	InputTokens uint64
	// Output tokens: by the server's last usage if Usage, else the number of token frames, else 0.
	OutputTokens uint64
	// OutputTokens is not known: the answer came in one piece, without usage.
	UncountedOutput bool
	// The server reported both the prompt tokens and the output tokens.
	Usage bool
	// Some frames without text may have carried a token: neither the server's usage nor anything else shows whether
	// they did. They are not counted as token frames.
	Undecided bool
	// Output tokens that were reasoning, if HasReasoningTokens: from the server's usage; else from its running usage at
	// the first frame of the answer; else ReasoningFrames, if each frame carried one token.
	ReasoningTokens uint64
	// ReasoningTokens is known, and there was reasoning.
	HasReasoningTokens bool
	// Prompt tokens that the server had in its prefix cache, from the last usage that reported them, if
	// HasCachedTokens.
	CachedTokens uint64
	// The server reported CachedTokens.
	HasCachedTokens bool
	// The server answered with one JSON body. FirstToken and LastToken are then the arrival of that body; ITL and TTFT
	// are not known.
	WholeAnswer bool
	// The request asked for an answer in one piece. The times of single tokens mean nothing then, even if the server
	// streams.
	WholeAsked bool
	// The server's own timings from the stream, as Dynamo sends them.
	Server ServerTiming
	// Status of the response. 0: no response.
	HTTPStatus int
	// Finish reason that the server gave, if any.
	FinishReason string
	// The server closed a kept connection before it answered, and the request was sent once more on a new one.
	Reconnected bool
	// LateEnd: the body of the response had not ended a millisecond after its last event. PreviousLate is how long that
	// took for the previous response on the connection; 0: it did not.
	LateEnd      bool
	PreviousLate time.Duration
	// Model that the answer named first, at most measure.MaxText bytes, or measure.OtherModels. Empty: none.
	Model string
	// What the finish reason means.
	Ending api.Ending
	// Replaced: the answer's text has replacement characters. SameTokens is how many frames in a row had equal text.
	Replaced   bool
	SameTokens uint32
	// With Request.KeepAnswer: the content of the answer's first choice, as far as it came, as it stood between the
	// quotes of the frames' JSON strings, with escapes kept. It is valid between the quotes of a JSON string: invalid
	// UTF-8 and unpaired surrogates are replaced by U+FFFD. Reasoning, tool calls, refusals and content in parts are
	// left out.
	Answer []byte
	// The values of the frames' api.Frame.Calls, one after another: the answer's tool calls, as far as they came.
	Calls []byte
	// How the request failed. Nil: it completed or was cancelled.
	Err *Error
	// The caller's context ended before the stream did.
	Cancelled bool
}

// Streamed reports whether the answer is a stream that was asked for, so that the times of its tokens are known.
func (o *Observation) Streamed() bool { return !o.WholeAnswer && !o.WholeAsked }

// reset clears the previous request and keeps its memory.
func (o *Observation) reset() {
	*o = Observation{Frames: o.Frames[:0], Lags: o.lag[:0], Answer: o.Answer[:0], Calls: o.Calls[:0]}
}

// Gaps appends the times between consecutive token frames, in nanoseconds, and returns the extended slice.
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
	frameToken     Frame = 1 << iota // it carries a token
	frameChunk                       // vLLM's benchmark client timestamps it
	frameUndecided                   // it has no text; whether it carries a token is decided at the end of the stream
	frameBits      = iota
)

// NewFrame returns a frame. token: it carries a token. chunk: vLLM's benchmark client timestamps it.
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

// At returns when the frame arrived.
func (f Frame) At() clock.Instant { return clock.Instant(f >> frameBits) }

// Token reports whether the frame carries a token.
func (f Frame) Token() bool { return f&frameToken != 0 }

// Chunk reports whether vLLM's benchmark client timestamps the frame. That client timestamps each frame with choices,
// with or without a token.
func (f Frame) Chunk() bool { return f&frameChunk != 0 }

// ServerTiming holds the timings that a server reports in the stream. Nil: not reported.
type ServerTiming struct {
	// TTFT, Queue and Total count from the request's arrival at the server: to its first token, to the start of its
	// prefill, and to its end. Prefill is how long the prefill took.
	TTFT, Queue, Total, Prefill *time.Duration
}

// Error describes how a request failed.
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

// read parses Dynamo's timings: {"timing": {"ttft_ms": 12.3, ...}}. Dynamo sends them in "nvext" if the request's own
// "nvext" has "extra_fields": ["timing"]. Values that are missing or implausible stay nil.
func (t *ServerTiming) read(nvext []byte) {
	var reported struct {
		Timing struct {
			TTFT    *float64 `json:"ttft_ms"`
			Queue   *float64 `json:"prefill_wait_time_ms"`
			Prefill *float64 `json:"prefill_time_ms"`
			Total   *float64 `json:"total_time_ms"`
		} `json:"timing"`
	}
	if json.Unmarshal(nvext, &reported) != nil {
		return
	}
	for _, part := range []struct {
		ms   *float64
		into **time.Duration
	}{
		{reported.Timing.TTFT, &t.TTFT}, {reported.Timing.Queue, &t.Queue},
		{reported.Timing.Prefill, &t.Prefill}, {reported.Timing.Total, &t.Total},
	} {
		if d, ok := milliseconds(part.ms); ok {
			*part.into = &d
		}
	}
}

// longestTiming is the longest plausible timing of a server.
const longestTiming = time.Hour

// milliseconds converts a timing. It returns false if the timing is missing or implausible.
func milliseconds(ms *float64) (time.Duration, bool) {
	if ms == nil || !(*ms >= 0 && *ms <= float64(longestTiming.Milliseconds())) {
		return 0, false
	}
	return time.Duration(math.Round(*ms * float64(time.Millisecond))), true
}
