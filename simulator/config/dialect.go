package config

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
	ExactOutput FieldHandling `default:"honoured" words:"honoured, ignored, refused" plan:"exact_output"`
	// Tools is the handling of tools, response_format and the like in chat, completions and Anthropic's messages.
	// Honoured, the default: a tool that tool_choice forces is called, and answers have the form. Ignored: answers are
	// words.
	Tools FieldHandling `default:"honoured" words:"honoured, ignored, refused" plan:"tools"`
}
