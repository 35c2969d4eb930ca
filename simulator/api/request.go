package api

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spate-load/spate/simulator/config"
)

// Request is the validated content of a request.
type Request struct {
	API             API
	model           string
	PromptTokens    int
	Blocks          []uint64 // chained hashes of the prompt's blocks, nil without a prefix cache
	MaxTokens       int
	minTokens       int
	IgnoreEOS       bool
	Stream          bool
	includeUsage    bool
	continuousUsage bool
	inputs          int    // texts of a pooling model's request
	events          bool   // Gemini: the stream is one of server-sent events
	hideReasoning   bool   // the request asks for no reasoning in the answer
	call            string // name of the tool that the answer calls; empty: none
	// said is the answer or the arguments of its call, as the texts of tokens. Nil: words.
	said []string
	// mayCall are the tools of which the answer may call one.
	mayCall []tool
	Script  Script // of the answer, drawn after the request is read
}

// reading is the reading of a request. After the first problem it takes nothing more.
type reading struct {
	*Request
	config  *config.Config
	prompt  tokens
	problem *Error
}

// read reads a body's JSON.
func read(a API, c *config.Config, body []byte, into any) *reading {
	return &reading{Request: &Request{API: a, model: c.ServedName()}, config: c, prompt: newTokens(&c.Model),
		problem: decode(body, into)}
}

// named takes the name of a model that must be served.
func (r *reading) named(model string) {
	r.model = model
	r.require(model != "", "model is missing: name one of /v1/models")
	if r.problem == nil && !r.config.Serves(model) {
		r.problem = unknownModel(model)
	}
}

// require sets the problem if a request is not as it must be.
func (r *reading) require(ok bool, message string) {
	if r.problem == nil && !ok {
		r.problem = BadRequest(message)
	}
}

// one takes a number of answers.
func (r *reading) one(field string, n *int) {
	if n != nil && *n != 1 {
		r.require(false, fmt.Sprintf("%s is %d: only 1 is simulated", field, *n))
	}
}

// text takes a prompt, a string or token ids.
func (r *reading) text(raw json.RawMessage) {
	if r.problem == nil {
		r.problem = r.prompt.prompt(raw)
	}
}

// content takes the content of a field.
func (r *reading) content(field string, raw json.RawMessage) {
	if r.problem == nil {
		if err := r.prompt.content(raw); err != nil {
			r.problem = BadRequest(field + " " + err.Error())
		}
	}
}

func (r *reading) conversation(messages []message) {
	if r.problem == nil {
		r.problem = r.prompt.conversation(messages, r.config.ChatTemplateTokens)
	}
}

// asked takes what a request asks for besides text.
func (r *reading) asked(a *asked) {
	if r.problem == nil {
		r.problem = a.script(r.Request, r.config)
	}
}

// done returns the request, with its maximum output as in limit.
func (r *reading) done(field string, given ...*int) (*Request, *Error) {
	if r.problem != nil {
		return nil, r.problem
	}
	r.PromptTokens, r.Blocks = r.prompt.count, r.prompt.blocks
	return r.Request, r.limit(r.config, field, given...)
}

// maxLength is the maximum length of a prompt or an output. defaultLength is that of an output without a limit, as in
// OpenAI's completions.
const (
	maxLength     = 1 << 24
	defaultLength = 16
)

// decode reads a body's JSON.
func decode(body []byte, into any) *Error {
	if err := json.Unmarshal(body, into); err != nil {
		return BadRequest("the body is not a JSON object of this API: " + err.Error())
	}
	return nil
}

// limit sets the maximum output from the first given value, or the default, and checks the lengths. field is the API's
// name for the limit.
func (q *Request) limit(c *config.Config, field string, given ...*int) *Error {
	q.MaxTokens = defaultLength
	for _, n := range given {
		if n != nil {
			q.MaxTokens = *n
			break
		}
	}
	total := q.PromptTokens + q.MaxTokens
	switch {
	case q.MaxTokens < 1 || q.MaxTokens > maxLength:
		return BadRequest(fmt.Sprintf("%s is %d: give 1 to %d", field, q.MaxTokens, maxLength))
	case q.minTokens < 0 || q.minTokens > q.MaxTokens:
		return BadRequest(fmt.Sprintf("min_tokens is %d: give 0 to %s, which is %d", q.minTokens, field, q.MaxTokens))
	case q.PromptTokens > maxLength:
		return BadRequest(fmt.Sprintf("the prompt has %d tokens: at most %d are simulated", q.PromptTokens, maxLength))
	case c.MaxModelTokens > 0 && total > c.MaxModelTokens:
		return tooLong(q.PromptTokens, q.MaxTokens, c.MaxModelTokens)
	}
	return nil
}

// newTokens returns a token counter. The counter hashes blocks if there is a prefix cache.
func newTokens(m *config.Model) tokens {
	if m.CacheBlocks == 0 {
		return tokens{}
	}
	return tokens{size: m.CacheBlockTokens}
}

// HasKey reports whether a request carries the key, as a bearer token or in the header of Anthropic's or Google's
// clients, or whether none is needed.
func HasKey(r *http.Request, c *config.Config) bool {
	if c.APIKey == "" {
		return true
	}
	got, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		got = cmp.Or(r.Header.Get("X-Api-Key"), r.Header.Get("X-Goog-Api-Key"), r.URL.Query().Get("key"))
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(c.APIKey)) == 1
}
