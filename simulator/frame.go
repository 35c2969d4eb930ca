package simulator

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// RoleFrame says when a stream sends what comes before its first token, such as the frame of a chat that names the role.
type RoleFrame string

// The times of the role frame.
const (
	RoleWithFirstToken RoleFrame = "first-token" // just before the first token, as vLLM does
	RoleAtOnce         RoleFrame = "at-once"     // when the request is accepted, long before the first token
	RoleNone           RoleFrame = "none"        // never
)

// Frames is the shape of a stream.
type Frames struct {
	// Role says when a stream sends the frames that come before the first token: a chat's role frame, response.created of responses,
	// message_start of Anthropic, and what follows them. The other APIs have none. Default RoleWithFirstToken.
	Role RoleFrame
	// ReasoningTokens is how many tokens at the begin of the output come as reasoning, in chat, responses and Anthropic's messages; the
	// other APIs have no place for it. Default 0.
	ReasoningTokens int
	// TokensPerFrame gathers so many tokens in a frame. The first token goes alone and the last frame has what is left, as with vLLM's
	// stream interval. TGI has a frame for each token: there they go with one write. Default 1.
	TokensPerFrame int
	// FramesPerWrite gathers so many token frames in one write, as a proxy that buffers does. They are written when the last of them
	// has its tokens. Default: 1, as is 0.
	FramesPerWrite int
	// SplitBytes cuts each write into writes of so many bytes, so that frames are split anywhere. Default: 0, they are not.
	SplitBytes int
	// Comments puts a comment before each frame. Default off.
	Comments bool
	// Trailers ends the answer with an HTTP trailer, X-Output-Tokens. Default off.
	Trailers bool
	// RunningUsage puts usage so far into every token frame, asked for or not. A request that asks for continuous_usage_stats gets it
	// anyway. Default off.
	RunningUsage bool
	// NoUsage leaves out usage even where it is asked for, as old servers do. Default off.
	NoUsage bool
	// FinishFrame sends finish_reason in a frame of its own after the last token, as OpenAI does. Default: with the last token, as
	// vLLM does. Responses and Anthropic's messages always have it apart, TGI and Triton never.
	FinishFrame bool
	// NoDone leaves out the mark at the end: [DONE], response.completed or message_stop. TGI and Triton have none. Default off.
	NoDone bool
	// CRLF ends lines with CR LF. Default: LF.
	CRLF bool
	// KeepAlive sends a comment line after each so long a silence. 0, the default: never.
	KeepAlive time.Duration
}

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
	if f.RunningUsage && f.NoUsage {
		errs = append(errs, errors.New("simulator: Frames.RunningUsage and Frames.NoUsage are both set: give one of them"))
	}
	return errors.Join(errs...)
}
