package config

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

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

// The values of Delivery. With the last four nothing is sent before the output has ended or, with two frames, has
// nearly ended.
const (
	DeliverAsProduced Delivery = "as-produced" // each frame when its tokens are produced
	DeliverOneWrite   Delivery = "one-write"   // all token frames in one write at the end
	DeliverOneFrame   Delivery = "one-frame"   // all tokens in one frame at the end
	DeliverTwoFrames  Delivery = "two-frames"  // all tokens but the last in one frame, the last in another
	DeliverJSON       Delivery = "json-body"   // one JSON body, although a stream was requested
)

var deliveries = []Delivery{DeliverAsProduced, DeliverOneWrite, DeliverOneFrame, DeliverTwoFrames, DeliverJSON}

// Frames is the shape of a stream.
type Frames struct {
	// Role is when a stream sends the frames that come before the first token: a chat's role frame, response.created
	// and response.in_progress of responses, message_start of Anthropic, messageStart of Bedrock. The other APIs have
	// none. An item of responses and a block of Anthropic start with their first text, as in vLLM. With RoleAtOnce a
	// block of Anthropic starts at once, as at Anthropic. Default RoleWithFirstToken.
	Role RoleFrame `flag:"role" words:"first-token, at-once, none" help:"<when> to send what comes before the first token, such as a chat's role: first-token, at-once or none"`
	// Deliver is how much of the output is sent at a time. Default, and "": DeliverAsProduced.
	Deliver Delivery `flag:"deliver" default:"as-produced" words:"as-produced, one-write, one-frame, two-frames, json-body" help:"<how> answers are sent: as-produced, or at the end of the output as one-write, one-frame, two-frames or json-body"`
	// ReasoningTokens is the number of reasoning tokens at the start of the output. Chat, responses, Anthropic's
	// messages, Bedrock and Gemini stream them separately from the answer. In the other APIs they are text like the
	// rest, unless they are hidden. Default 0.
	ReasoningTokens int `group:"answers" flag:"reasoning-tokens" help:"<tokens> at the start of each output that are reasoning"`
	// ReasoningField is the field of a chat's delta that carries reasoning: "reasoning_content" (default), "reasoning",
	// or any other name. With ReasoningHidden no API streams reasoning, but it takes its time and counts in usage.
	ReasoningField string `group:"answers" flag:"reasoning-field" default:"reasoning_content" help:"<field> of a chat's delta that carries reasoning: reasoning, or any other; hidden: it is not streamed, in any API"`
	// NoReasoningUsage leaves the number of reasoning tokens out of usage. Default: chat and responses report it.
	NoReasoningUsage bool `group:"answers" flag:"reasoning-untold" help:"do not report the number of reasoning tokens in usage"`
	// TokensPerFrame is the number of tokens per frame. The first token is alone in its frame and the last frame has
	// the rest, as with vLLM's stream interval. TGI has a frame for each token, and sends this number of frames per
	// write. Default 1.
	TokensPerFrame int `flag:"tokens-per-frame" help:"<tokens> of one frame, as with speculative decoding"`
	// FramesPerWrite is the number of token frames per write, as behind a proxy that buffers. They are written when the
	// last one has its tokens. 0, the default, means 1.
	FramesPerWrite int `flag:"frames-per-write" default:"1" help:"token <frames> that go with one write, as through a proxy that buffers"`
	// SplitBytes splits each write into writes of this many bytes, so that frames are split anywhere. 0, the default:
	// writes are not split.
	SplitBytes int `flag:"split-bytes" help:"cut all writes into writes of this many <bytes> (default: whole frames)"`
	// Comments puts a comment before each frame. Default off.
	Comments bool `flag:"comments" help:"a comment before each frame"`
	// Trailers adds an HTTP trailer, X-Output-Tokens, to the answer. Default off.
	Trailers bool `flag:"trailers" help:"an HTTP trailer at the end"`
	// RunningUsage puts the usage so far into every token frame, requested or not. Default: only as
	// Dialect.ContinuousUsage allows.
	RunningUsage bool `flag:"running-usage" help:"usage so far in every token frame, requested or not"`
	// NoUsage leaves out usage even where it is requested, as old servers do. Default off.
	NoUsage bool `flag:"no-usage" help:"no usage, even if it is requested"`
	// FinishFrame sends finish_reason in a separate frame after the last token, as OpenAI does, and an output that ends
	// by itself ends with its last text. Default, as in vLLM: finish_reason comes with the last token, and an output
	// that ends by itself ends with the end-of-sequence token, which has no text, takes a step of its own and counts in
	// usage. Responses, Anthropic's messages and Bedrock always send the reason separately, TGI and Triton never. With
	// FinishFrame a response that reaches its limit ends with response.incomplete, otherwise with response.completed.
	FinishFrame bool `flag:"finish-frame" help:"finish reason in its own frame, as OpenAI does (default: with the last token, as vLLM does)"`
	// NoEndMark leaves out the end mark: [DONE], response.completed, message_stop, messageStop, or the end of Gemini's
	// array. TGI, Triton and Gemini's events have none.
	// Default off.
	NoEndMark bool `flag:"no-end-mark" help:"no [DONE], response.completed or message_stop"`
	// CRLF ends lines with CR LF. Default: LF.
	CRLF bool `flag:"crlf" help:"lines end with CR LF"`
	// KeepAlive is the silence after which a comment line is sent. 0, the default: never.
	KeepAlive time.Duration `flag:"keep-alive" help:"a comment after each silence of this length (default: none)"`
}

// fieldName matches the valid values of Frames.ReasoningField.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_]*$`)

func (f *Frames) validate() error {
	errs := []error{
		checkAtLeast("Frames.ReasoningTokens", f.ReasoningTokens, 0),
		checkAtLeast("Frames.TokensPerFrame", f.TokensPerFrame, 1),
		checkAtLeast("Frames.FramesPerWrite", f.FramesPerWrite, 0),
		checkAtLeast("Frames.SplitBytes", f.SplitBytes, 0),
		checkAtLeast("Frames.KeepAlive", f.KeepAlive, 0),
	}
	roles := []RoleFrame{RoleWithFirstToken, RoleAtOnce, RoleNone}
	if !slices.Contains(roles, f.Role) {
		errs = append(errs, fmt.Errorf("simulator: Frames.Role is %q: give one of %q", f.Role, roles))
	}
	if !slices.Contains(append(deliveries, ""), f.Deliver) {
		errs = append(errs, fmt.Errorf("simulator: Frames.Deliver is %q: give one of %q", f.Deliver, deliveries))
	}
	if !fieldName.MatchString(f.ReasoningField) {
		errs = append(errs, fmt.Errorf("simulator: Frames.ReasoningField is %q: give a name of letters, digits and _",
			f.ReasoningField))
	}
	if f.RunningUsage && f.NoUsage {
		errs = append(errs, errors.New("simulator: Frames.RunningUsage and Frames.NoUsage are both set: "+
			"give one of them"))
	}
	return errors.Join(errs...)
}
