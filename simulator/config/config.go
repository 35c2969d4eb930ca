// Package config holds what can be set of a simulator: the deployment and its speed, the shape of its answers, its
// faults, and what is recorded. It knows nothing of how these are done.
package config

import (
	"errors"
	"io"
	"math"
	"slices"
	"time"

	"github.com/spate-load/spate/internal/reason"
)

// Config configures a simulator. Default returns the defaults; zero fields mean zero. Config holds a secret (APIKey):
// do not print it. Its tags declare flags of `spate simulate`.
type Config struct {
	// Endpoints is the number of endpoints that Start serves if it is given no addresses. Default 1.
	Endpoints int `plan:"endpoints"`
	// Replicas is the number of equal engines behind one endpoint. A request goes to the engine with the fewest
	// requests in flight, the first among equals. Default 1.
	Replicas int `plan:"replicas"`
	// ReplicaSpread is how much slower the last engine is than the first, as a share, counted over all endpoints. The
	// engines between lie evenly between them. Not for use with PrefillEngines. Default 0: all are equal.
	ReplicaSpread float64 `plan:"replica_spread"`
	// ReplicaSkew is how unevenly ReplicaSpread is spaced: above 0 few engines are slow. Default 0: evenly.
	ReplicaSkew float64 `plan:"replica_skew"`
	// PrefillEngines makes an endpoint a disaggregated group: this number of engines prefill, from one queue, and the
	// Replicas decode. 0, the default: each engine does both.
	PrefillEngines int `plan:"prefill_engines"`
	// Model is the speed of each engine.
	Model Model `group:"Engines" rare:"yes"`
	// Pace, if set, replaces the engines: each endpoint sends in a steady rhythm.
	Pace Pace
	// Seed determines everything random: early ends, faults and jitter. Random numbers of a request depend on its
	// X-Request-Id, so that the same IDs have the same fate in any order. Without an ID they depend on the request's
	// number at the endpoint.
	Seed uint64 `group:"Answers" flag:"seed" help:"seed of faults, early ends, tokens without text, jitter and stalls"`

	// ModelName is the model served. Requests for another name get 404. Empty, the default: every name is served.
	ModelName string `group:"What is served" flag:"model" help:"model <name> to serve (default: every name)"`
	// Adapters are names of models that are served besides ModelName, such as those of LoRA adapters.
	Adapters []string
	// APIKey is the bearer token that requests must carry. Others get 401. Empty: no key is required.
	APIKey string
	// Protocol is the protocol that Start speaks.
	Protocol Protocol `group:"What is served"`
	// AllowRemote lets Start listen on addresses that are not loopback. A simulator should not be left on a network.
	AllowRemote bool `group:"What is served" rare:"yes" flag:"allow-remote" help:"allow addresses beyond loopback: a simulator is not a server to leave on a network"`
	// MaxModelTokens is the maximum of prompt and output together. Longer requests get 400. 0, the default: no limit.
	MaxModelTokens int `plan:"max_model_tokens"`
	// ChatTemplateTokens is the number of tokens that a chat template adds to the words of a conversation. Default 0.
	ChatTemplateTokens int `plan:"chat_template_tokens"`
	// OutputLength is the length of outputs that end by themselves.
	OutputLength OutputLength
	// TextlessShare is the chance of each token to be streamed as a frame with empty text, as engines send halves of
	// characters and special tokens, 0 (default) to 1. In APIs without such frames (responses and Anthropic's messages,
	// as vLLM serves them), these tokens have no frame.
	TextlessShare float64 `plan:"textless_share"`
	// WrongShare is the chance of each answer to be wrong, 0 (default) to 1, of requests that make more than WrongAbove
	// in flight at the endpoint, at endpoint WrongEndpoint, counted from 1, or at all of them if that is 0.
	WrongShare    float64 `plan:"wrong_share"`
	WrongAbove    int     `plan:"wrong_above"`
	WrongEndpoint int     `plan:"wrong_endpoint"`
	// Dialect is how the server introduces itself, and how it handles request fields that only some servers know.
	Dialect Dialect

	// Frames is the shape of the stream.
	Frames Frames `group:"Answers" rare:"yes"`
	// Faults are tried in this order for each request. The first one that strikes is the request's only fault.
	Faults []Fault
	// Truth is what is recorded about the frames sent.
	Truth Truth `group:"The truth" rare:"yes"`
}

// Default returns the default configuration.
func Default() Config {
	return Config{
		Endpoints: 1,
		Replicas:  1,
		Model:     defaultModel(),
		Dialect:   Dialect{OwnedBy: "spate"},
		Frames:    Frames{Role: RoleWithFirstToken, TokensPerFrame: 1},
	}
}

// Validate checks the faults and the pace. The schema of plans and the flags check the rest.
func (c *Config) Validate() error {
	errs := []error{
		reason.If(c.Pace.FirstToken < 0, "simulator: Pace.FirstToken is %v: give at least 0s", c.Pace.FirstToken),
		reason.If(c.Pace.Set() && c.Pace.BetweenTokens <= 0, "simulator: Pace.BetweenTokens is %v: give a time above 0",
			c.Pace.BetweenTokens),
	}
	for _, f := range c.Faults {
		errs = append(errs,
			reason.If(!slices.Contains(faultKinds, f.Kind), "simulator: fault %q is not known: give one of %q",
				f.Kind, faultKinds),
			reason.If(!(f.Probability >= 0 && f.Probability <= 1), "simulator: the share of fault %q is %v: give 0 to 1",
				f.Kind, f.Probability),
			reason.If(f.AfterTokens < 0, "simulator: fault %q is after %d tokens: give at least 0", f.Kind, f.AfterTokens),
			reason.If(f.Pause < 0, "simulator: the pause of fault %q is %v: give at least 0s", f.Kind, f.Pause))
	}
	return errors.Join(errs...)
}

// Loops returns the number of engines or groups behind an endpoint. Each runs in its own loop.
func (c *Config) Loops() int {
	if c.PrefillEngines > 0 || c.Pace.Set() {
		return 1
	}
	return c.Replicas
}

// Serves reports whether a model is served under a name.
func (c *Config) Serves(name string) bool {
	return c.ModelName == "" || name == c.ModelName || slices.Contains(c.Adapters, name)
}

// ServedName returns the name to show for the model served.
func (c *Config) ServedName() string {
	if c.ModelName != "" {
		return c.ModelName
	}
	return "simulated"
}

// FieldHandling is how a server handles a request field that not all servers know.
type FieldHandling string

// The values of FieldHandling.
const (
	Honoured FieldHandling = "honoured"
	Ignored  FieldHandling = "ignored"
	Refused  FieldHandling = "refused" // with 400
)

// Dialect is how a server introduces itself, and how it handles request fields that only some servers know. The zero
// value is a server that names no owner and honours everything.
type Dialect struct {
	// OwnedBy is owned_by of /v1/models: "vllm", "nvidia" for Dynamo, "openai" for LiteLLM. Default "spate".
	OwnedBy string `plan:"owned_by"`
	// ExactOutput is the handling of ignore_eos and min_tokens, under whatever names an API has for them. Default
	// Honoured.
	ExactOutput FieldHandling `plan:"exact_output"`
	// Tools is the handling of tools, response_format and the like in chat, completions and Anthropic's messages.
	// Honoured, the default: a tool that tool_choice forces is called, and answers have the form. Ignored: answers are
	// words.
	Tools FieldHandling `plan:"tools"`
}

// FaultKind is one way in which a server fails.
type FaultKind string

// The faults. The first three replace the whole response and never reach the engine. The others strike within it. In a
// stream, they strike before the frame with the token after AfterTokens, or before the last frame if the output is
// shorter. In an answer that is not streamed, they strike in the body. The last one changes the whole answer and fails
// nothing.
const (
	FaultTooManyRequests FaultKind = "429"     // 429 with an error object and Retry-After
	FaultServerError     FaultKind = "500"     // 500 with an error object
	FaultGarbage         FaultKind = "garbage" // 200 with a body that does not belong to any API
	// FaultGarbageFrame is a frame of broken JSON, then the stream ends as if nothing were wrong
	FaultGarbageFrame FaultKind = "garbage-frame"
	FaultErrorFrame   FaultKind = "error-frame" // an error object in the stream after its 200, then the end mark
	// FaultCut closes the connection in order, but before the end of the body
	FaultCut   FaultKind = "cut"
	FaultReset FaultKind = "reset" // the connection is reset (TCP RST)
	// FaultStall is silence for Pause, or until the client leaves; then everything due is sent at once
	FaultStall FaultKind = "stall"
	// FaultJSONBody answers with one JSON body although a stream was requested
	FaultJSONBody FaultKind = "json-body"
)

var faultKinds = []FaultKind{FaultTooManyRequests, FaultServerError, FaultGarbage, FaultGarbageFrame, FaultErrorFrame,
	FaultCut, FaultReset, FaultStall, FaultJSONBody}

// Fault is a fault and how often it strikes.
type Fault struct {
	// Kind is what happens.
	Kind FaultKind
	// Probability is the chance that the fault strikes a request, from 0 to 1.
	Probability float64
	// AfterTokens is the number of tokens sent before the fault.
	AfterTokens int
	// Pause is the silence of a stall. 0: until the client leaves or the simulator closes.
	Pause time.Duration
}

// RoleFrame is when a stream sends what comes before its first token, such as the frame that names the role in a chat.
type RoleFrame string

// The values of RoleFrame.
const (
	RoleWithFirstToken RoleFrame = "first-token" // just before the first token, as vLLM does
	RoleAtOnce         RoleFrame = "at-once"     // when the request is accepted, long before the first token
	RoleNone           RoleFrame = "none"        // never
)

// ReasoningHidden is the ReasoningField of a server that does not stream its reasoning.
const ReasoningHidden = "hidden"

// Delivery is how much of an output is sent at a time.
type Delivery string

// The values of Delivery. With the last two nothing is sent before the output has ended.
const (
	DeliverAsProduced Delivery = "as-produced" // each frame when its tokens are produced
	DeliverOneWrite   Delivery = "one-write"   // all token frames in one write at the end
	DeliverOneFrame   Delivery = "one-frame"   // all tokens in one frame at the end
)

// Frames is the shape of a stream.
type Frames struct {
	// Role is when a stream sends the frames that come before the first token: a chat's role frame, response.created
	// and response.in_progress of responses, message_start of Anthropic, messageStart of Bedrock. The other APIs have
	// none. An item of responses and a block of Anthropic start with their first text, as in vLLM. With RoleAtOnce a
	// block of Anthropic starts at once, as at Anthropic. Default RoleWithFirstToken.
	Role RoleFrame `flag:"role" oneof:"first-token, at-once, none" help:"<when> to send what comes before the first token, such as a chat's role: first-token, at-once or none"`
	// Deliver is how much of the output is sent at a time. Default, and "": DeliverAsProduced.
	Deliver Delivery `plan:"deliver"`
	// ReasoningTokens is the number of reasoning tokens at the start of the output. Chat, responses, Anthropic's
	// messages, Bedrock and Gemini stream them separately from the answer. In the other APIs they are text like the
	// rest, unless they are hidden. Default 0.
	ReasoningTokens int `plan:"reasoning_tokens"`
	// ReasoningField is the field of a chat's delta that carries reasoning: "reasoning_content" (default), "reasoning",
	// or any other name. With ReasoningHidden no API streams reasoning, but it takes its time and counts in usage.
	ReasoningField string `plan:"reasoning_field"`
	// NoReasoningUsage leaves the number of reasoning tokens out of usage. Default: chat and responses report it.
	NoReasoningUsage bool `plan:"reasoning_untold"`
	// TokensPerFrame is the number of tokens per frame. The first token is alone in its frame and the last frame has
	// the rest, as with vLLM's stream interval. Default 1.
	TokensPerFrame int `plan:"tokens_per_frame"`
	// FinishFrame sends finish_reason in a separate frame after the last token, as OpenAI does, and an output that ends
	// by itself ends with its last text. Default, as in vLLM: finish_reason comes with the last token, and an output
	// that ends by itself ends with the end-of-sequence token, which has no text, takes a step of its own and counts in
	// usage. Responses, Anthropic's messages and Bedrock always send the reason separately. With FinishFrame a
	// response that reaches its limit ends with response.incomplete, otherwise with response.completed.
	FinishFrame bool `flag:"finish-frame" help:"finish reason in its own frame, as OpenAI does (default: with the last token, as vLLM does)"`
}

// Model is the speed of one engine.
type Model struct {
	// PrefillTokensPerSecond is the prefill speed for one prompt at a time. +Inf: prefill takes no time. Default
	// 50,000.
	PrefillTokensPerSecond float64 `plan:"prefill_tokens_per_second"`
	// DecodeStep is the time of a decode step with one request. Default 5 ms.
	DecodeStep time.Duration `plan:"decode_step"`
	// DecodeStepPerRequest is the time that each further request adds to the step. Default 50 us.
	DecodeStepPerRequest time.Duration `plan:"decode_step_per_request"`
	// MaxRunning is the maximum number of requests in prefill and decode together, or in decode alone with
	// disaggregated serving. The rest queue. Default 256.
	MaxRunning int `plan:"max_running"`
	// PrefillInterference is the share of its decoding pace that an engine loses while it prefills, 0 to 1. 1 is an
	// engine that does one of the two at a time, prefill first. Disaggregated engines lose none. Default 0.
	PrefillInterference float64 `plan:"prefill_interference"`
	// TransferPerThousandTokens is how long a disaggregated prefill engine takes to hand over the KV cache of 1,000
	// prompt tokens, before the first token. Default 0.
	TransferPerThousandTokens time.Duration `plan:"transfer_per_thousand_tokens"`
	// TransferInterference is the share of their decoding pace that the decode engines of a disaggregated group lose
	// while a KV cache is handed over, 0 to 1. 1 is an engine that stands still while it receives one. Default 0.
	TransferInterference float64 `plan:"transfer_interference"`
	// PrefillFirst lets a disaggregated prefill engine take all waiting prompts before it hands over the KV caches of
	// the finished ones. These are handed over together, and the decode engines lose TransferInterference from the end
	// of the first prefill on. Default: each KV cache is handed over before the next prompt is taken.
	PrefillFirst bool `plan:"prefill_first"`
	// PrefillPerPrompt is the time that each prompt occupies its prefill engine in addition to the time for its tokens.
	// Default 0.
	PrefillPerPrompt time.Duration `plan:"prefill_per_prompt"`
	// PrefillSharing lets prompts share the prefill engines by time slices: all prompts are in prefill at once, and
	// each gets its share. Default: each engine prefills one prompt at a time, first come, first served.
	PrefillSharing bool `plan:"prefill_sharing"`
	// Overhead is the time before each request is queued for prefill. It occupies nothing. Default 0.
	Overhead time.Duration `plan:"overhead"`
	// PrefillJitter and StepJitter are the coefficients of variation of a lognormal factor with mean 1 on the time of
	// each prefill and of each decode step. The factor of a request's prefill depends only on Config.Seed and the
	// X-Request-Id. Default 0.
	PrefillJitter float64 `plan:"prefill_jitter"`
	StepJitter    float64 `plan:"step_jitter"`
	// StallShare is the chance that a decode step takes Stall longer. Default 0.
	StallShare float64       `plan:"stall_share"`
	Stall      time.Duration `plan:"stall"`
	// CacheBlocks is the size of each prefill engine's prefix cache, in blocks of CacheBlockTokens tokens (default 16).
	// 0, the default: there is no cache.
	CacheBlocks      int `plan:"cache_blocks"`
	CacheBlockTokens int `plan:"cache_block_tokens"`
	// SpreadStep produces the tokens of a step evenly over its time, the last one at its end. Default: all at its end,
	// as in real engines.
	SpreadStep bool `flag:"spread-step" help:"send the tokens of a decode step evenly over it (default: all at its end, as engines that batch do)"`
}

func defaultModel() Model {
	return Model{
		PrefillTokensPerSecond: 50_000,
		DecodeStep:             5 * time.Millisecond,
		DecodeStepPerRequest:   50 * time.Microsecond,
		MaxRunning:             256,
		CacheBlockTokens:       16,
	}
}

// SpeedUp makes the engine k times faster in everything it does.
func (m *Model) SpeedUp(k float64) {
	m.PrefillTokensPerSecond *= k
	for _, d := range []*time.Duration{
		&m.DecodeStep, &m.DecodeStepPerRequest, &m.TransferPerThousandTokens, &m.PrefillPerPrompt,
		&m.Overhead, &m.Stall,
	} {
		*d = spedUp(*d, k)
	}
}

// spedUp returns a time divided by k, at most a year, so that instants cannot overflow.
func spedUp(d time.Duration, k float64) time.Duration {
	const longest = 365 * 24 * time.Hour
	return time.Duration(math.Round(min(float64(d)/k, float64(longest))))
}

// OutputLength is the length of outputs that end by themselves. It does not apply if the request says ignore_eos, or
// beyond the request's limit.
type OutputLength struct {
	// Mean and Stddev are those of a lognormal distribution of lengths in tokens, before the limit applies. 0, the
	// default: outputs do not end by themselves.
	Mean   float64 `plan:"output_mean"`
	Stddev float64 `plan:"output_stddev"`
}

// Pace is a steady rhythm that replaces the model of the engines, for measuring clients: what a client should see is
// known in advance. Nothing queues. The zero Pace means no pace: engines are modelled.
type Pace struct {
	// FirstToken is the time from a request's arrival to its first token.
	FirstToken time.Duration
	// BetweenTokens is the time from one token to the next. Above 0.
	BetweenTokens time.Duration
	// Ticks gives all streams their tokens at the same instants, as batching engines do. The ticks are BetweenTokens
	// apart, and a first token comes with the first tick that is at least FirstToken after its request. Default: each
	// stream has its own schedule from its arrival on.
	Ticks bool
}

// Set reports whether a pace is configured.
func (p *Pace) Set() bool { return *p != Pace{} }

// SpeedUp makes the pace k times faster.
func (p *Pace) SpeedUp(k float64) {
	p.FirstToken, p.BetweenTokens = spedUp(p.FirstToken, k), spedUp(p.BetweenTokens, k)
}

// Truth is what is recorded about the frames sent.
type Truth struct {
	// Stamp adds "sent_ns" to each object sent: clock.Now just before the write.
	Stamp bool `flag:"truth" help:"stamp each frame with the instant it was sent at"`
	// Keep holds a Record of each request in memory, for Records. The memory grows without bound: for tests.
	Keep bool
	// Tokens adds to each Record the send time of every token frame.
	Tokens bool `flag:"truth-tokens" help:"with --truth-file: the send time of each token frame, too"`
	// Log receives each Record as a line of JSON when its request has ended, with one Write each, never concurrently.
	// The caller closes it, after the simulator. Nil: no log.
	Log io.Writer
}
