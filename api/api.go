// Package api says what an API of an endpoint is: what its requests look like, what its answers mean and what its
// servers can be asked. Each folder below it has a family of APIs, and package registry lists them all. Package stream
// sends the requests.
package api

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/workload"
)

// API is one API that endpoints speak: its constants, and functions for what differs in more than constants. Callers
// must not change it. Its functions have no state and are safe for concurrent use.
type API struct {
	// Name in plans.
	Name string

	// Provider and Operation are gen_ai.provider.name and gen_ai.operation.name in OpenTelemetry's conventions. Empty:
	// "openai", whose API others offer too, and "chat".
	Provider, Operation string

	// Path starts at the root of the endpoint, after Version. MODEL in it stands for the model's name.
	Path string
	// WholePath is the path for answers in one piece. Empty: Path, where the body's "stream" decides.
	WholePath string
	// Whole: requests ask for answers in one piece. InOnePiece sets it.
	Whole bool
	// Version is put before Path, such as "/v1beta", unless an endpoint's URL has a version of its own. May be empty.
	Version string
	// Query is the query of requests. May be empty.
	Query string
	// Headers are sent with each request, unless the plan sets them.
	Headers map[string]string
	// KeyHeader is the header that carries the plan's api_key. Empty: "Authorization: Bearer KEY".
	KeyHeader string
	// BearerBelow is a folder in an endpoint's path below which the key is a bearer token in any case. Empty: none.
	BearerBelow string

	// Model is the body's field for the model's name. Empty: none.
	Model string
	// Prompts are the forms that prompts can have, the default first. An API whose prompts are messages has only that
	// form.
	Prompts []Prompt
	// OtherPrompts are the body's other fields that can hold a prompt. A plan cannot give them.
	OtherPrompts []string
	// Rewrite, if not nil, rewrites the prompt, dst[from:], which is the value of a body's field, into the API's form,
	// and returns the extended dst. It may add more fields after the value.
	Rewrite func(dst []byte, from int) []byte
	// Defaults are the body's other fields and their defaults, which the plan can override.
	Defaults map[string]any
	// Template is the template of the whole body, of which the plan gives no other fields. Empty: there is none.
	Template string
	// Form is the form (multipart/form-data) that requests send in place of a body with fields. Nil: none.
	Form *MultipartForm
	// Check returns an error if the events of an answer lack what the API's answers must have. Nil: nothing is checked.
	Check func(events [][]byte) error
	// Options is the field of the object that holds the fields below. Empty: the body itself holds them.
	Options string
	// Reserved maps fields of Options that a plan cannot give to the reason.
	Reserved map[string]string
	// NoOutput: answers have no output tokens and come in one piece, such as vectors and scores.
	NoOutput bool
	// Cuts: Rewrite cuts a prompt into several texts, so that its length in tokens is not the workload's.
	Cuts bool
	// MaxFields are the fields for the maximum of output tokens, none if there is no output. The client fills in the
	// first, unless the plan sets another.
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
	// Uncounted: servers never report the number of tokens of a prompt.
	Uncounted bool
	// Unsimulated: the simulator does not answer it.
	Unsimulated bool

	// Tools is how answers call tools. Nil: they do not.
	Tools *Tools
	// Forms is where a request says which form its answer must have. What is not listed cannot be checked.
	Forms []Form
	// Demand returns the fields of a body that demand an answer which satisfies a JSON Schema. Nil: the API has none.
	Demand func(schema any) map[string]any

	// Framing is how streams are divided into events.
	Framing Framing
	// Parse parses one event, or a whole answer, into f, which it overwrites. It must not keep the event, and must not
	// allocate for a frame with a token. It fails if the event is not of this API.
	Parse func(e Event, f *Frame) error
	// Describe asks a server for its models and its version. Either may be empty. Nil: GET /v1/models and /version.
	Describe func(ctx context.Context, s Server) ([]Model, string, error)
	// Count asks a server for the tokens of a text or, if chat, of a chat with the text as its one message. Nil: POST
	// /tokenize.
	Count func(ctx context.Context, s Server, text string, chat bool) (Tokens, error)
}

// MultipartForm is a form with fields and files.
type MultipartForm struct {
	// Fields are templates of text, by the names of fields.
	Fields map[string]string
	Files  []FormFile
}

// FormFile is a file in a form.
type FormFile struct {
	Field, Name string
	Content     []byte
}

// FormBoundary separates the parts of forms. It is fixed, so that equal requests are equal byte for byte.
const FormBoundary = "spate-0d6c3f7a5b4e49f1"

// DescribedBody reports whether a plan describes the whole body, of which it gives no single fields.
func (a *API) DescribedBody() bool { return a.Template != "" || a.Form != nil }

// Framing is how a stream is divided into events.
type Framing uint8

const (
	// ServerSentEvents are lines of text, as the HTML standard defines them.
	ServerSentEvents Framing = iota
	// EventStream is AWS's binary encoding, application/vnd.amazon.eventstream.
	EventStream
	// JSONLines are JSON values, one on each line.
	JSONLines
)

// Event is one event of a stream, or a whole answer.
type Event struct {
	// Name is the event's type, if the framing carries it beside the data: only EventStream does. It points into the
	// bytes of the stream, like Data.
	Name []byte
	// Data is the event's content.
	Data []byte
	// Failed: the framing marks the event as an error.
	Failed bool
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
	return slices.Concat(a.OtherPrompts, lists.Each(a.Prompts, func(p Prompt) string { return p.Field }))
}

// PathFor returns the path for a model, without the version.
func (a *API) PathFor(model string) string {
	return strings.ReplaceAll(a.Path, "MODEL", EscapeModel(model))
}

// EscapeModel returns the name of a model as it stands in a path. Colons are escaped, too: a path can have its own, and
// signatures of AWS are made over the escaped form.
func EscapeModel(name string) string { return strings.ReplaceAll(url.PathEscape(name), ":", "%3A") }

// versionIn matches a version in a path.
var versionIn = regexp.MustCompile(`/v[0-9][a-z0-9]*(/|$)`)

// Versioned returns the index at which a path has its first version, such as the /v1beta of /v1beta/openai. -1: it has
// none.
func Versioned(path string) int {
	if at := versionIn.FindStringIndex(path); at != nil {
		return at[0]
	}
	return -1
}

// SetKey adds the header with a key to the headers of requests to an endpoint. An empty key is not sent.
func (a *API) SetKey(h http.Header, key string, endpoint *url.URL) {
	switch {
	case key == "":
	case a.KeyHeader == "", a.BearerBelow != "" && strings.Contains(endpoint.Path, a.BearerBelow):
		h.Set("Authorization", "Bearer "+key)
	default:
		h.Set(a.KeyHeader, key)
	}
}

// InOnePiece returns the API with requests for answers in one piece.
func (a *API) InOnePiece() *API {
	w := *a
	w.Whole, w.Framing = true, ServerSentEvents
	if a.WholePath != "" {
		w.Path, w.WholePath, w.Query = a.WholePath, "", ""
	}
	w.Headers = maps.Clone(a.Headers)
	delete(w.Headers, "Accept")
	w.Defaults = maps.Clone(a.Defaults)
	delete(w.Defaults, StreamOptions)
	if _, given := w.Defaults[streamField]; given {
		w.Defaults[streamField] = false
	}
	return &w
}

// streamField is the field of bodies that asks for a stream.
const streamField = "stream"

// StreamField reports whether the body's "stream" decides whether the answer is a stream.
func (a *API) StreamField() bool {
	_, given := a.Defaults[streamField]
	return given && a.WholePath == ""
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
