package simulator

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// RoleFrame says when a chat stream sends its first frame, which names the role and carries no token.
type RoleFrame string

// The times of the role frame.
const (
	RoleWithFirstToken RoleFrame = "first-token" // just before the first token, as vLLM does
	RoleAtOnce         RoleFrame = "at-once"     // when the request is accepted, long before the first token
	RoleNone           RoleFrame = "none"        // never
)

// Frames is the shape of a stream.
type Frames struct {
	// Role says when a chat stream sends its role frame. Default RoleWithFirstToken.
	Role RoleFrame
	// ReasoningTokens is how many tokens at the begin of a chat's output come as reasoning_content. Default 0.
	ReasoningTokens int
	// TokensPerFrame gathers so many tokens in a frame. The first token goes alone and the last frame has what is left, as with vLLM's
	// stream interval. Default 1.
	TokensPerFrame int
	// RunningUsage puts usage so far into every token frame, asked for or not. A request that asks for continuous_usage_stats gets it
	// anyway. Default off.
	RunningUsage bool
	// NoUsage leaves out usage even where it is asked for, as old servers do. Default off.
	NoUsage bool
	// FinishFrame sends finish_reason in a frame of its own after the last token, as OpenAI does. Default: with the last token, as
	// vLLM does.
	FinishFrame bool
	// NoDone leaves out the [DONE] at the end. Default off.
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
