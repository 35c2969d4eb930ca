package simulator

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"
)

// RoleFrame says when a stream sends what comes before its first token, such as the frame of a chat that names the
// role.
type RoleFrame string

// The times of the role frame.
const (
	RoleWithFirstToken RoleFrame = "first-token" // just before the first token, as vLLM does
	RoleAtOnce         RoleFrame = "at-once"     // when the request is accepted, long before the first token
	RoleNone           RoleFrame = "none"        // never
)

// ReasoningHidden is the ReasoningField of a server that thinks in silence.
const ReasoningHidden = "hidden"

// Delivery says how much of an output goes out at a time.
type Delivery string

// The deliveries. With the last four nothing goes out before the output has ended, or, with two frames, nearly ended.
const (
	DeliverAsProduced Delivery = "as-produced" // each frame when it has its tokens
	DeliverOneWrite   Delivery = "one-write"   // all token frames in one write at the end
	DeliverOneFrame   Delivery = "one-frame"   // all tokens in one frame at the end
	DeliverTwoFrames  Delivery = "two-frames"  // all tokens but the last in one frame, the last in another
	DeliverJSON       Delivery = "json-body"   // one JSON body, though a stream was asked for
)

var deliveries = []Delivery{DeliverAsProduced, DeliverOneWrite, DeliverOneFrame, DeliverTwoFrames, DeliverJSON}

// Frames is the shape of a stream.
type Frames struct {
	// Role says when a stream sends the frames that come before the first token: a chat's role frame, response.created
	// and response.in_progress of responses, message_start of Anthropic. The other APIs have none. An item of responses
	// and a block of Anthropic's start with their first text, as in vLLM; with RoleAtOnce a block starts at once, as at
	// Anthropic. Default RoleWithFirstToken.
	Role RoleFrame
	// Deliver says how much of the output goes out at a time. Default, as "": DeliverAsProduced.
	Deliver Delivery
	// ReasoningTokens is how many tokens at the start of the output are reasoning. Chat, responses and Anthropic's
	// messages stream them apart from the answer; in the other APIs they are text like the rest, unless they are
	// hidden. Default 0.
	ReasoningTokens int
	// ReasoningField is the field of a chat's delta that carries reasoning: "reasoning_content" (default), "reasoning",
	// or any other name. ReasoningHidden streams no reasoning, in any API: it takes its time and counts in usage.
	ReasoningField string
	// ReasoningUntold leaves the number of reasoning tokens out of usage. Default: chat and responses tell it.
	ReasoningUntold bool
	// TokensPerFrame gathers so many tokens in a frame. The first token goes alone and the last frame has what is left,
	// as with vLLM's stream interval. TGI has a frame for each token: there they go with one write. Default 1.
	TokensPerFrame int
	// FramesPerWrite gathers so many token frames in one write, as a proxy that buffers does. They are written when the
	// last of them has its tokens. Default: 1, as is 0.
	FramesPerWrite int
	// SplitBytes cuts each write into writes of so many bytes, so that frames are split anywhere. Default: 0, they are
	// not.
	SplitBytes int
	// Comments puts a comment before each frame. Default off.
	Comments bool
	// Trailers ends the answer with an HTTP trailer, X-Output-Tokens. Default off.
	Trailers bool
	// RunningUsage puts usage so far into every token frame, asked for or not. Default: where Config.ContinuousUsage
	// gives it.
	RunningUsage bool
	// NoUsage leaves out usage even where it is asked for, as old servers do. Default off.
	NoUsage bool
	// FinishFrame sends finish_reason in a frame of its own after the last token, as OpenAI does, and an output that
	// ends by itself ends with its last text. Default, as vLLM does it: finish_reason comes with the last token, and an
	// output that ends by itself ends with the end-of-sequence token, which has no text, takes a step of its own and
	// counts in usage. Responses and Anthropic's messages always have the reason apart, TGI and Triton never; a
	// response cut at its limit ends with response.incomplete here, with response.completed by default.
	FinishFrame bool
	// NoDone leaves out the mark at the end: [DONE], response.completed or message_stop. TGI and Triton have none.
	// Default off.
	NoDone bool
	// CRLF ends lines with CR LF. Default: LF.
	CRLF bool
	// KeepAlive sends a comment line after each so long a silence. 0, the default: never.
	KeepAlive time.Duration
}

// fieldName is what Frames.ReasoningField may be.
var fieldName = regexp.MustCompile(`^[A-Za-z0-9_]*$`)

func (f *Frames) validate() error {
	errs := []error{
		atLeast("Frames.ReasoningTokens", f.ReasoningTokens, 0),
		atLeast("Frames.TokensPerFrame", f.TokensPerFrame, 1),
		atLeast("Frames.FramesPerWrite", f.FramesPerWrite, 0),
		atLeast("Frames.SplitBytes", f.SplitBytes, 0),
		atLeast("Frames.KeepAlive", f.KeepAlive, 0),
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
		errs = append(errs, errors.New("simulator: Frames.RunningUsage and Frames.NoUsage are both set: give one of them"))
	}
	return errors.Join(errs...)
}
