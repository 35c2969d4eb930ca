// Package api says what an API of an endpoint is: what its requests look like, what its answers mean and what its servers
// can be asked. Each folder below it has a family of APIs, and package registry lists them all. Package stream sends the
// requests.
package api

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/spate-load/spate/workload"
)

// API is one API that endpoints speak: its constants, and functions for what differs in more than constants. Callers
// must not change it. Its functions have no state and are safe for concurrent use.
type API struct {
	// Name in plans.
	Name string

	// Path starts at the root of the endpoint. MODEL in it stands for the model's name.
	Path string
	// Headers are sent with each request, unless the plan sets them.
	Headers map[string]string
	// KeyHeader is the header that carries the plan's api_key. Empty: "Authorization: Bearer KEY".
	KeyHeader string

	// Model is the body's field for the model's name. Empty: none.
	Model string
	// Prompts are the forms that prompts can have, the default first. An API whose prompts are messages has only that
	// form.
	Prompts []Prompt
	// OtherPrompts are the body's other fields that can hold a prompt. A plan cannot give them.
	OtherPrompts []string
	// Rewrite, if not nil, rewrites the prompt, dst[from:], which is the value of a body's field, from OpenAI's
	// messages into the API's form, and returns the extended dst.
	Rewrite func(dst []byte, from int) []byte
	// Defaults are the body's other fields and their defaults, which the plan can override.
	Defaults map[string]any
	// Options is the field of the object that holds the fields below. Empty: the body itself holds them.
	Options string
	// Reserved maps fields of Options that a plan cannot give to the reason.
	Reserved map[string]string
	// MaxFields are the fields for the maximum of output tokens. The client fills in the first, unless the plan sets
	// another.
	MaxFields []string
	// IgnoreEOS is the field that makes the server ignore the end-of-sequence token. MinFields are the fields for the
	// minimum of output tokens.
	IgnoreEOS string
	MinFields []string

	// ExactServers are the servers, as they name themselves as owners of models, that are known to make outputs of
	// exactly the requested length. AlwaysExact: only such servers have this API.
	ExactServers []string
	AlwaysExact  bool
	// Trials: a short request shows which of its fields a server accepts.
	Trials bool
	// NoEndMark: only the end of the response marks the end of a stream.
	NoEndMark bool
	// StreamOnly: the API has no answers in one piece.
	StreamOnly bool
	// Uncounted: servers never report the number of tokens of a prompt.
	Uncounted bool

	// Parse parses the data of one event, or a whole answer, into f, which it overwrites. It must not keep data, and
	// must not allocate for a frame with a token. It fails if the data is not of this API.
	Parse func(data []byte, f *Frame) error
	// Describe asks a server for its models and its version. Either may be empty. Nil: GET /v1/models and /version.
	Describe func(ctx context.Context, s Server) ([]Model, string, error)
	// Count asks a server for the tokens of a text or, if chat, of a chat with the text as its one message. Nil: POST
	// /tokenize.
	Count func(ctx context.Context, s Server, text string, chat bool) (Tokens, error)
}

// Prompt is a form that prompts can have, and the body's field for them.
type Prompt struct {
	Form  workload.Form
	Field string
}

// Chat reports whether prompts are messages.
func (a *API) Chat() bool { return a.Prompts[0].Form == workload.Messages }

// Prompt returns how prompts of a form are sent. False: the API does not take that form.
func (a *API) Prompt(form workload.Form) (Prompt, bool) {
	i := slices.IndexFunc(a.Prompts, func(p Prompt) bool { return p.Form == form })
	if i < 0 {
		return Prompt{}, false
	}
	return a.Prompts[i], true
}

// PromptFields returns the body's fields that can hold a prompt.
func (a *API) PromptFields() []string {
	fields := slices.Clone(a.OtherPrompts)
	for _, p := range a.Prompts {
		fields = append(fields, p.Field)
	}
	return fields
}

// PathFor returns the path for a model.
func (a *API) PathFor(model string) string {
	return strings.ReplaceAll(a.Path, "MODEL", url.PathEscape(model))
}

// StreamOptions is the field of bodies that configures what streams of OpenAI's chat and completions contain besides
// tokens.
const StreamOptions = "stream_options"

// RunningUsage reports whether servers can be asked for running usage.
func (a *API) RunningUsage() bool {
	_, ok := a.Defaults[StreamOptions]
	return ok
}

// LengthFields returns the fields that ask for outputs of exactly the requested length.
func (a *API) LengthFields() []string {
	if a.IgnoreEOS == "" {
		return a.MinFields
	}
	return append([]string{a.IgnoreEOS}, a.MinFields...)
}
