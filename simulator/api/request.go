// Package api reads the requests and writes the answers of the APIs of LLM servers, one file each. It is pure: it turns
// bytes into a Request, and numbers of tokens into bytes. When they are sent is decided elsewhere, except for the send
// time in a frame: Seal reads the clock just before the system call.
package api

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/simulator/config"
)

// Request is the validated content of a request.
type Request struct {
	frames          *frames
	model           string
	PromptTokens    int
	Blocks          []uint64 // chained hashes of the prompt's blocks, nil without a prefix cache
	MaxTokens       int
	minTokens       int
	IgnoreEOS       bool
	Stream          bool
	includeUsage    bool
	continuousUsage bool
	call            string // name of the tool that the answer calls; empty: none
	// said is the answer or the arguments of its call, as the texts of tokens. Nil: words.
	said []string
	// pooled appends the answer of a pooling model.
	pooled func(b []byte) []byte
	Script Script // of the answer, drawn after the request is read
}

// reading reads the members of a request's body, a JSON object. After the first problem it takes nothing more.
type reading struct {
	*Request
	config  *config.Config
	members []member
	prompt  tokens
	problem *Error
}

// read starts to read a body. f are the frames of the answer.
func read(f *frames, c *config.Config, body []byte) *reading {
	r := &reading{Request: &Request{frames: f, model: c.ServedName(), MaxTokens: defaultLength}, config: c}
	if c.Model.CacheBlocks > 0 {
		r.prompt.size = c.Model.CacheBlockTokens
	}
	r.require(json.Valid(body) && kindOf(body) == '{', "the body is not a JSON object")
	if r.problem == nil {
		r.members = make([]member, 0, 16)
		gjson.ParseBytes(body).ForEach(func(name, value gjson.Result) bool {
			r.members = append(r.members, member{name.String(), json.RawMessage(value.Raw)})
			return true
		})
	}
	return r
}

type member struct {
	name string
	raw  json.RawMessage
}

// member returns a member of the body, or of an object in it: path is its name behind those of the objects, with dots
// between. Nil: it is absent, or null.
func (r *reading) member(path string) (raw json.RawMessage) {
	name, rest, inside := strings.Cut(path, ".")
	for i := range r.members {
		if r.members[i].name == name {
			raw = r.members[i].raw
		}
	}
	if kindOf(raw) == 'n' {
		return nil
	}
	if inside && raw != nil {
		r.require(raw[0] == '{', name+" is not an object")
		raw = json.RawMessage(gjson.GetBytes(raw, rest).Raw)
	}
	if kindOf(raw) == 0 || raw[0] == 'n' {
		return nil
	}
	return raw
}

// get returns the value of a member, zero if the body does not have it.
func get[T any](r *reading, path string) (v T) {
	if raw := r.member(path); raw != nil {
		if err := json.Unmarshal(raw, &v); err != nil {
			r.require(false, fmt.Sprintf("%s has a value of another type: %v", path, err))
		}
	}
	return v
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

// one takes the number of answers.
func (r *reading) one(path string) {
	if n := get[*int](r, path); n != nil && *n != 1 {
		r.require(false, fmt.Sprintf("%s is %d: only 1 is simulated", path, *n))
	}
}

// text takes a prompt, a string or token ids.
func (r *reading) text(raw json.RawMessage) {
	if r.problem == nil {
		r.problem = r.prompt.prompt(raw)
	}
}

// content takes the content of a member.
func (r *reading) content(path string) {
	if err := r.prompt.content(r.member(path)); err != nil {
		r.require(false, path+" "+err.Error())
	}
}

func (r *reading) conversation(messages []message) {
	if r.problem == nil {
		r.problem = r.prompt.conversation(messages, r.config.ChatTemplateTokens)
	}
}

// done returns the request. Its maximum output is the first of these members that the body has, or the default.
func (r *reading) done(limits ...string) (*Request, *Error) {
	limit := "the limit of the output"
	for _, path := range limits {
		limit = path
		if n := get[*int](r, path); n != nil {
			r.MaxTokens = *n
			break
		}
	}
	if r.problem == nil {
		r.PromptTokens, r.Blocks = r.prompt.count, r.prompt.blocks
		r.problem = r.checkLengths(limit, r.config.MaxModelTokens)
	}
	return r.Request, r.problem
}

// maxLength is the maximum length of a prompt or an output. defaultLength is that of an output without a limit, as in
// OpenAI's completions.
const (
	maxLength     = 1 << 24
	defaultLength = 16
)

// checkLengths returns an error if the prompt and the output are too long. limit is the API's name for the limit of the
// output, model the maximum of both together, 0: none.
func (q *Request) checkLengths(limit string, model int) *Error {
	switch total := q.PromptTokens + q.MaxTokens; {
	case q.MaxTokens < 1 || q.MaxTokens > maxLength:
		return BadRequest(fmt.Sprintf("%s is %d: give 1 to %d", limit, q.MaxTokens, maxLength))
	case q.minTokens < 0 || q.minTokens > q.MaxTokens:
		return BadRequest(fmt.Sprintf("min_tokens is %d: give 0 to %s, which is %d", q.minTokens, limit, q.MaxTokens))
	case q.PromptTokens > maxLength:
		return BadRequest(fmt.Sprintf("the prompt has %d tokens: at most %d are simulated", q.PromptTokens, maxLength))
	case model > 0 && total > model:
		return invalid(http.StatusBadRequest, "context_length_exceeded",
			fmt.Sprintf("This model's maximum context length is %d tokens. You requested %d tokens: "+
				"%d in the prompt and %d in the output.", model, total, q.PromptTokens, q.MaxTokens))
	}
	return nil
}

// HasKey reports whether a request carries the key, as a bearer token or in the header of Anthropic's
// clients, or whether none is needed.
func HasKey(r *http.Request, c *config.Config) bool {
	if c.APIKey == "" {
		return true
	}
	got, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		got = r.Header.Get("X-Api-Key")
	}
	return subtle.ConstantTimeCompare([]byte(got), []byte(c.APIKey)) == 1
}

// apply reports whether a requested field is honoured, or returns the error if the request is refused. field is its
// name.
func apply(h config.FieldHandling, field string, asked bool) (bool, *Error) {
	if asked && h == config.Refused {
		return false, unknownParameter(field)
	}
	return asked && h != config.Ignored, nil
}

// ExactOutput applies Dialect.ExactOutput to a request.
func ExactOutput(d *config.Dialect, q *Request) *Error {
	var problem *Error
	if q.IgnoreEOS, problem = apply(d.ExactOutput, "ignore_eos", q.IgnoreEOS); problem != nil {
		return problem
	}
	least, problem := apply(d.ExactOutput, "min_tokens", q.minTokens > 0)
	if !least {
		q.minTokens = 0
	}
	return problem
}

// API is one generation API: it reads requests and writes answers. It has no state, and its methods are safe for
// concurrent use. A new API is a file with a type that implements API and its routes, an entry in Routes, and frames in
// frames.txt.
type API interface {
	// Parse reads a request.
	Parse(r *http.Request, body []byte, c *config.Config) (*Request, *Error)
	// Problem returns an error in this API's form: the status and the body.
	Problem(e *Error) (status int, body []byte)
}

// Routes returns the generation APIs by the patterns of their paths.
func Routes() map[string]API {
	all := map[string]API{}
	for _, routes := range []map[string]API{
		openAIRoutes, responsesRoutes, anthropicRoutes, sglangRoutes, poolingRoutes,
	} {
		maps.Copy(all, routes)
	}
	return all
}
