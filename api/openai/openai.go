// Package openai has OpenAI's APIs: chat, completions and responses.
package openai

import (
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/workload"
)

// usageInStream asks for a stream with a last frame that has the usage.
var usageInStream = map[string]any{"stream": true, api.StreamOptions: map[string]any{"include_usage": true}}

// Chat is POST /v1/chat/completions.
var Chat = api.API{
	Name: "chat", Path: "/v1/chat/completions", Model: "model",
	Prompts: []api.Prompt{{Form: workload.Messages, Field: "messages"}}, Defaults: usageInStream,
	MaxFields: []string{"max_tokens", "max_completion_tokens"}, IgnoreEOS: "ignore_eos",
	MinFields: []string{"min_tokens"}, ExactServers: engines, Trials: true, Parse: parse, Tools: tools, Forms: forms,
	Demand: demand,
}

// Completions is POST /v1/completions.
var Completions = api.API{
	Name: "completions", Operation: "text_completion", Path: "/v1/completions", Model: "model",
	Prompts:   []api.Prompt{{Form: workload.TokenIDs, Field: "prompt"}, {Form: workload.Text, Field: "prompt"}},
	Defaults:  usageInStream,
	MaxFields: []string{"max_tokens", "max_completion_tokens"}, IgnoreEOS: "ignore_eos",
	MinFields: []string{"min_tokens"}, ExactServers: engines, Trials: true, Parse: parse, Forms: forms,
	Demand: demand,
}

// engines are the serving engines that accept ignore_eos and min_tokens in chat and completions.
var engines = []string{"vllm", "sglang", "tensorrt_llm"}
