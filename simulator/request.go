package simulator

import (
	"encoding/json"
	"fmt"
)

// api is one of the two generation APIs.
type api uint8

const (
	chat api = iota
	completions
)

// request is what a request asks for, checked.
type request struct {
	api             api
	model           string
	promptTokens    int
	blocks          []uint64 // chained hashes of the prompt's blocks, nil without a prefix cache
	maxTokens       int
	minTokens       int
	ignoreEOS       bool
	stream          bool
	includeUsage    bool
	continuousUsage bool
}

// wire is the part of a request body that is looked at. Everything else is taken and ignored, as servers do with sampling parameters.
type wire struct {
	Model               *string         `json:"model"`
	Prompt              json.RawMessage `json:"prompt"`
	Messages            []message       `json:"messages"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	N                   *int            `json:"n"`
	Stream              bool            `json:"stream"`
	StreamOptions       struct {
		IncludeUsage         bool `json:"include_usage"`
		ContinuousUsageStats bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
}

type message struct {
	Content json.RawMessage `json:"content"`
}

// mostTokens is the longest prompt or output that is simulated.
const mostTokens = 1 << 24

// parseRequest reads a request body.
func parseRequest(a api, body []byte, c *Config) (*request, *apiError) {
	var w wire
	if err := json.Unmarshal(body, &w); err != nil {
		return nil, badRequest("the body is not a JSON object of this API: " + err.Error())
	}
	if w.Model == nil || *w.Model == "" {
		return nil, badRequest("model is missing: name one of /v1/models")
	}
	if c.ModelName != "" && *w.Model != c.ModelName {
		return nil, unknownModel(*w.Model)
	}
	if w.N != nil && *w.N != 1 {
		return nil, badRequest(fmt.Sprintf("n is %d: only 1 is simulated", *w.N))
	}
	prompt := c.Model.newTokens()
	if problem := w.tokens(a, c, &prompt); problem != nil {
		return nil, problem
	}
	q := &request{
		api:             a,
		model:           *w.Model,
		promptTokens:    prompt.count,
		blocks:          prompt.blocks,
		minTokens:       w.MinTokens,
		ignoreEOS:       w.IgnoreEOS,
		stream:          w.Stream,
		includeUsage:    w.StreamOptions.IncludeUsage,
		continuousUsage: w.StreamOptions.ContinuousUsageStats,
	}
	return q, q.limit(w.limit(c), c)
}

// limit returns the output limit that the body gives, or the default.
func (w *wire) limit(c *Config) int {
	switch {
	case w.MaxCompletionTokens != nil:
		return *w.MaxCompletionTokens
	case w.MaxTokens != nil:
		return *w.MaxTokens
	default:
		return c.DefaultOutputTokens
	}
}

// limit sets and checks the lengths.
func (q *request) limit(maxTokens int, c *Config) *apiError {
	q.maxTokens = maxTokens
	total := q.promptTokens + maxTokens
	switch {
	case maxTokens < 1 || maxTokens > mostTokens:
		return badRequest(fmt.Sprintf("max_tokens is %d: give 1 to %d", maxTokens, mostTokens))
	case q.minTokens < 0 || q.minTokens > maxTokens:
		return badRequest(fmt.Sprintf("min_tokens is %d: give 0 to max_tokens, which is %d", q.minTokens, maxTokens))
	case q.promptTokens > mostTokens:
		return badRequest(fmt.Sprintf("the prompt has %d tokens: at most %d are simulated", q.promptTokens, mostTokens))
	case c.MaxModelTokens > 0 && total > c.MaxModelTokens:
		return tooLong(q.promptTokens, maxTokens, c.MaxModelTokens)
	}
	return nil
}

// tokens takes the prompt of either API.
func (w *wire) tokens(a api, c *Config, t *tokens) *apiError {
	if a == completions {
		return t.prompt(w.Prompt)
	}
	return t.conversation(w.Messages, c.ChatTemplateTokens)
}

// newTokens returns a counter of tokens that hashes them if there is a prefix cache.
func (m *Model) newTokens() tokens {
	if m.CacheBlocks == 0 {
		return tokens{}
	}
	return tokens{size: m.CacheBlockTokens}
}
