package stream

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spate-load/spate/workload"
)

// dialect is one API: where its requests go, how a request is encoded and what an answer's frames mean. A dialect has
// no state; many goroutines call its methods at once. To add one, write a file with these four methods and a line in
// dialects. authorizer, promptRewriter, describer and tokenCounter are for APIs that differ from OpenAI's in that
// respect.
type dialect interface {
	// traits returns the API's constants. Callers must not change them.
	traits() *traits
	// form returns how prompts are written.
	form() workload.Form
	// prompt returns the body's field for the prompt.
	prompt() string
	// frame parses one event's data, or a whole answer. It must not keep data, and must not allocate for a frame with a
	// token. It fails if the data is not of this API.
	frame(data []byte, f *frame) error
}

// traits are the constants of an API.
type traits struct {
	// path starts at the root of the endpoint. MODEL in it stands for the model's name.
	path string
	// model is the body's field for the model's name. Empty: none.
	model string
	// prompts are the body's fields that can hold a prompt.
	prompts []string
	// defaults are the body's other fields and their defaults, which the plan can override.
	defaults map[string]any
	// options is the field of the object that holds the fields below. Empty: the body itself holds them.
	options string
	// maxFields are the fields for the maximum of output tokens. The client fills in the first, unless the plan sets
	// another.
	maxFields []string
	// ignoreEOS is the field that makes the server ignore the end-of-sequence token. minFields are the fields for the
	// minimum of output tokens.
	ignoreEOS string
	minFields []string
	// noEndMark: only the end of the response marks the end of a stream.
	noEndMark bool
	// streamOnly: the API has no answers in one piece.
	streamOnly bool
}

// pathFor returns the path for a model.
func (t *traits) pathFor(model string) string {
	return strings.ReplaceAll(t.path, "MODEL", url.PathEscape(model))
}

// authorizer is a dialect whose key is not sent as "Authorization: Bearer KEY".
type authorizer interface {
	// authorize sets the headers for a key. The key may be empty.
	authorize(h http.Header, key string)
}

// promptRewriter is a dialect whose prompts differ in form from OpenAI's messages.
type promptRewriter interface {
	// rewritePrompt rewrites the prompt, dst[from:], which is the value of a body's field, and returns the extended
	// dst.
	rewritePrompt(dst []byte, from int) []byte
}

// api creates a dialect. forms are the forms of prompts that it accepts, the default first.
type api struct {
	forms []workload.Form
	make  func(workload.Form) dialect
}

// dialects are all dialects, by their names in plans.
var dialects = map[string]api{
	"chat": {[]workload.Form{workload.Messages}, func(workload.Form) dialect { return chat{} }},
	"completions": {[]workload.Form{workload.TokenIDs, workload.Text},
		func(f workload.Form) dialect { return completions{written: f} }},
	"responses": {[]workload.Form{workload.Messages}, func(workload.Form) dialect { return responses{} }},
	"sglang": {[]workload.Form{workload.TokenIDs, workload.Text},
		func(f workload.Form) dialect { return sglang{written: f} }},
	"tgi":       {[]workload.Form{workload.Text}, func(workload.Form) dialect { return tgi{} }},
	"triton":    {[]workload.Form{workload.Text}, func(workload.Form) dialect { return triton{} }},
	"anthropic": {[]workload.Form{workload.Messages}, func(workload.Form) dialect { return anthropic{} }},
}

// dialectOf returns the dialect of an API for a form of prompts. APIs that take messages ignore the form.
func dialectOf(name, prompts string) (dialect, error) {
	if name == "" {
		name = "chat"
	}
	d, known := dialects[name]
	if !known {
		return nil, fmt.Errorf("unknown api %q: use \"chat\", \"completions\", \"responses\", \"sglang\", \"tgi\", "+
			"\"triton\" or \"anthropic\"", name)
	}
	form := d.forms[0]
	switch prompts {
	case "":
	case "token_ids":
		form = workload.TokenIDs
	case "text":
		form = workload.Text
	default:
		return nil, fmt.Errorf("unknown prompts %q: use \"token_ids\" or \"text\"", prompts)
	}
	switch {
	case d.forms[0] == workload.Messages:
		form = workload.Messages
	case !slices.Contains(d.forms, form):
		return nil, fmt.Errorf("prompts %q are not supported by api %q, which takes only text", prompts, name)
	}
	return d.make(form), nil
}
