package stream

import "github.com/spate-load/spate/workload"

// usageInStream asks for a stream with a last frame that has the usage.
var usageInStream = map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}}

// chat is OpenAI's POST /v1/chat/completions.
type chat struct{}

var chatTraits = traits{
	path: "/v1/chat/completions", model: "model", prompts: []string{"messages"}, defaults: usageInStream,
	maxFields: []string{"max_tokens", "max_completion_tokens"}, ignoreEOS: "ignore_eos",
	minFields: []string{"min_tokens"},
}

func (chat) traits() *traits                   { return &chatTraits }
func (chat) form() workload.Form               { return workload.Messages }
func (chat) prompt() string                    { return "messages" }
func (chat) frame(data []byte, f *frame) error { return openAIFrame(data, f) }

// completions is OpenAI's POST /v1/completions.
type completions struct {
	written workload.Form // of the prompts
}

var completionsTraits = traits{
	path: "/v1/completions", model: "model", prompts: []string{"prompt"}, defaults: usageInStream,
	maxFields: []string{"max_tokens", "max_completion_tokens"}, ignoreEOS: "ignore_eos",
	minFields: []string{"min_tokens"},
}

func (completions) traits() *traits                   { return &completionsTraits }
func (d completions) form() workload.Form             { return d.written }
func (completions) prompt() string                    { return "prompt" }
func (completions) frame(data []byte, f *frame) error { return openAIFrame(data, f) }
