package simulator

import (
	"encoding/json"
	"fmt"
	"net/http"
)

// request is the validated content of a request.
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
	tokenIDs        bool // frames carry the ids of their tokens
	details         bool // TGI: the answer holds more than the text
	nvext           nvext
	script          script // of the answer, drawn after the request is read
}

// newRequest returns a request with a prompt that has been counted.
func newRequest(a api, model string, prompt *tokens) *request {
	return &request{api: a, model: model, promptTokens: prompt.count, blocks: prompt.blocks}
}

// maxLength is the maximum length of a prompt or an output.
const maxLength = 1 << 24

// parseRequest reads the body for an API that looks at nothing else of the request.
func parseRequest(a api, body []byte, c *Config) (*request, *apiError) {
	return a.parse(new(http.Request), body, c)
}

// decode reads a body's JSON.
func decode(body []byte, into any) *apiError {
	if err := json.Unmarshal(body, into); err != nil {
		return badRequest("the body is not a JSON object of this API: " + err.Error())
	}
	return nil
}

// model returns the model that a request names.
func (c *Config) model(name *string) (string, *apiError) {
	switch {
	case name == nil || *name == "":
		return "", badRequest("model is missing: name one of /v1/models")
	case c.ModelName != "" && *name != c.ModelName:
		return "", unknownModel(*name)
	}
	return *name, nil
}

// modelName returns the name to show for the model served.
func (c *Config) modelName() string {
	if c.ModelName != "" {
		return c.ModelName
	}
	return "simulated"
}

// limit sets the maximum output from the first given value, or the default, and checks the lengths. field is the API's
// name for the limit.
func (q *request) limit(c *Config, field string, given ...*int) *apiError {
	q.maxTokens = c.DefaultOutputTokens
	for _, n := range given {
		if n != nil {
			q.maxTokens = *n
			break
		}
	}
	total := q.promptTokens + q.maxTokens
	switch {
	case q.maxTokens < 1 || q.maxTokens > maxLength:
		return badRequest(fmt.Sprintf("%s is %d: give 1 to %d", field, q.maxTokens, maxLength))
	case q.minTokens < 0 || q.minTokens > q.maxTokens:
		return badRequest(fmt.Sprintf("min_tokens is %d: give 0 to %s, which is %d", q.minTokens, field, q.maxTokens))
	case q.promptTokens > maxLength:
		return badRequest(fmt.Sprintf("the prompt has %d tokens: at most %d are simulated", q.promptTokens, maxLength))
	case c.MaxModelTokens > 0 && total > c.MaxModelTokens:
		return tooLong(q.promptTokens, q.maxTokens, c.MaxModelTokens)
	}
	return nil
}

// newTokens returns a token counter. The counter hashes blocks if there is a prefix cache.
func (m *Model) newTokens() tokens {
	if m.CacheBlocks == 0 {
		return tokens{}
	}
	return tokens{size: m.CacheBlockTokens}
}
