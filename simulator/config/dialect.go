package config

import (
	"errors"
	"fmt"
	"slices"
)

// FieldHandling is how a server handles a request field that not all servers know.
type FieldHandling string

// The values of FieldHandling.
const (
	Honoured FieldHandling = "honoured"
	Ignored  FieldHandling = "ignored"
	Refused  FieldHandling = "refused" // with 400
)

var fieldHandlings = []FieldHandling{Honoured, Ignored, Refused}

// Dialect is how a server introduces itself, and how it handles request fields that only some servers know. The zero
// value is a server that names no owner and honours everything but nvext.
type Dialect struct {
	// OwnedBy is owned_by of /v1/models: "vllm", "nvidia" for Dynamo, "openai" for LiteLLM. Default "spate".
	OwnedBy string `flag:"owned-by" help:"<owner> that /v1/models names: vllm, nvidia for Dynamo, openai for LiteLLM"`
	// NoTokenize answers /tokenize with 404, as most servers do. Default: the path exists, as in vLLM.
	NoTokenize bool `flag:"no-tokenize" help:"have no /tokenize"`
	// ExactOutput is the handling of ignore_eos and min_tokens, under whatever names an API has for them. Default
	// Honoured.
	ExactOutput FieldHandling `flag:"exact-output" default:"honoured" words:"honoured, ignored, refused" help:"ignore_eos and min_tokens: <treatment>"`
	// ContinuousUsage is the handling of stream_options.continuous_usage_stats in chat and completions. Honoured, the
	// default: each frame has the usage so far, if include_usage is requested too. Refused: every other option that
	// OpenAI does not know is refused too.
	ContinuousUsage FieldHandling `flag:"continuous-usage" default:"honoured" words:"honoured, ignored, refused" help:"stream_options.continuous_usage_stats: <treatment>; if refused, all stream options that OpenAI lacks are"`
	// TokenIDs is the handling of return_token_ids in chat and completions. Honoured: each choice has token_ids.
	// Default Ignored.
	TokenIDs FieldHandling `flag:"token-ids" words:"honoured, ignored, refused" help:"return_token_ids: <treatment>"`
	// Tools is the handling of tools, response_format and the like in chat, completions and Anthropic's messages.
	// Honoured, the default: a tool that tool_choice forces is called, and answers have the form. Ignored: answers are
	// words.
	Tools FieldHandling `flag:"tools" default:"honoured" words:"honoured, ignored, refused" help:"tools, response_format and the like: <treatment>; a tool that tool_choice forces is called"`
	// ToolCallShare is the share of the answers that call one of the request's tools where tool_choice is auto, from 0
	// (default: they are words) to 1. Each tool is as likely as the others.
	ToolCallShare float64 `flag:"tool-call-share" help:"<share> of answers that call a tool where tool_choice is auto, from 0 to 1"`
	// NVExt answers nvext.extra_fields "timing" and "worker_id" of a chat or completions request, as Dynamo does.
	// Default off.
	NVExt bool `flag:"nvext" help:"answer Dynamo's nvext.extra_fields: timing and worker_id"`
}

func (d *Dialect) validate() error {
	var errs []error
	for _, f := range []struct {
		name  string
		value FieldHandling
	}{{"ExactOutput", d.ExactOutput}, {"ContinuousUsage", d.ContinuousUsage}, {"TokenIDs", d.TokenIDs},
		{"Tools", d.Tools}} {
		if !slices.Contains(append(fieldHandlings, ""), f.value) {
			errs = append(errs, fmt.Errorf("simulator: Dialect.%s is %q: give one of %q",
				f.name, f.value, fieldHandlings))
		}
	}
	if share := d.ToolCallShare; !(share >= 0 && share <= 1) {
		errs = append(errs, fmt.Errorf("simulator: Dialect.ToolCallShare is %v: give 0 to 1", share))
	}
	return errors.Join(errs...)
}
