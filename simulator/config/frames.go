package config

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
	Role RoleFrame `flag:"role" words:"first-token, at-once, none" help:"<when> to send what comes before the first token, such as a chat's role: first-token, at-once or none"`
	// Deliver is how much of the output is sent at a time. Default, and "": DeliverAsProduced.
	Deliver Delivery `default:"as-produced" words:"as-produced, one-write, one-frame" plan:"deliver"`
	// ReasoningTokens is the number of reasoning tokens at the start of the output. Chat, responses, Anthropic's
	// messages, Bedrock and Gemini stream them separately from the answer. In the other APIs they are text like the
	// rest, unless they are hidden. Default 0.
	ReasoningTokens int `plan:"reasoning_tokens"`
	// ReasoningField is the field of a chat's delta that carries reasoning: "reasoning_content" (default), "reasoning",
	// or any other name. With ReasoningHidden no API streams reasoning, but it takes its time and counts in usage.
	ReasoningField string `default:"reasoning_content" plan:"reasoning_field"`
	// NoReasoningUsage leaves the number of reasoning tokens out of usage. Default: chat and responses report it.
	NoReasoningUsage bool `plan:"reasoning_untold"`
	// TokensPerFrame is the number of tokens per frame. The first token is alone in its frame and the last frame has
	// the rest, as with vLLM's stream interval. Default 1.
	TokensPerFrame int `least:"1" plan:"tokens_per_frame"`
	// FinishFrame sends finish_reason in a separate frame after the last token, as OpenAI does, and an output that ends
	// by itself ends with its last text. Default, as in vLLM: finish_reason comes with the last token, and an output
	// that ends by itself ends with the end-of-sequence token, which has no text, takes a step of its own and counts in
	// usage. Responses, Anthropic's messages and Bedrock always send the reason separately. With FinishFrame a
	// response that reaches its limit ends with response.incomplete, otherwise with response.completed.
	FinishFrame bool `flag:"finish-frame" help:"finish reason in its own frame, as OpenAI does (default: with the last token, as vLLM does)"`
}
