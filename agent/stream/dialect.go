package stream

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/spate-load/spate/workload"
)

// dialect is one API: where its requests go, how a request is written and what an answer's frames say. A dialect keeps
// no state; its methods are called by many goroutines at once. A new one is a file with these four methods and a line
// in dialects; authorizer, arranger, describer and counter are for APIs that differ from OpenAI's in what they are
// named after.
type dialect interface {
	// traits are what is fixed of the API. Nobody changes them.
	traits() *traits
	// form is how a prompt is written.
	form() workload.Form
	// prompt is the body's field that the prompt goes into.
	prompt() string
	// frame reads one event's data, or a whole answer. It must not keep data, and must not allocate for a token. An
	// error: the data is none of this API's.
	frame(data []byte, f *frame) error
}

// traits are what is fixed of an API.
type traits struct {
	// path begins at the root of the endpoint. MODEL in it stands for the model's name.
	path string
	// model is the body's field for the model's name. Empty: there is none.
	model string
	// prompts are the body's fields that can hold a prompt.
	prompts []string
	// fixed are the body's further fields, unless the plan gives them.
	fixed map[string]any
	// options is the field of the object that holds the fields below. Empty: the body itself.
	options string
	// lengths are fields for the most output tokens. The client fills in the first, unless the plan gives another.
	lengths []string
	// eos is the field that lets outputs go on beyond their end, least those for the fewest output tokens.
	eos   string
	least []string
	// unmarked says that nothing tells the end of a stream but the end of the response.
	unmarked bool
	// streamed says that there are no answers in one piece.
	streamed bool
}

// at is the path for a model.
func (t *traits) at(model string) string {
	return strings.ReplaceAll(t.path, "MODEL", url.PathEscape(model))
}

// authorizer is a dialect with other headers than "Authorization: Bearer KEY".
type authorizer interface {
	// authorize sets the headers of requests with a key, which is empty if there is none.
	authorize(h http.Header, key string)
}

// arranger is a dialect whose prompts are not written as OpenAI's messages are.
type arranger interface {
	// arrange changes the prompt that dst ends with, from an index on. It stands as the value of a body's field.
	arrange(dst []byte, from int) []byte
}

// api is what makes a dialect: by the forms of prompts that it knows, the usual one first.
type api struct {
	forms []workload.Form
	make  func(workload.Form) dialect
}

// dialects are all, by the names that plans have for them.
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

// dialectOf returns the dialect of an API whose prompts have a form. A chat's prompts have only one.
func dialectOf(name, prompts string) (dialect, error) {
	if name == "" {
		name = "chat"
	}
	d, known := dialects[name]
	if !known {
		return nil, fmt.Errorf("api %q is not known: say \"chat\", \"completions\", \"responses\", \"sglang\", \"tgi\", \"triton\" or \"anthropic\"", name)
	}
	form := d.forms[0]
	switch prompts {
	case "":
	case "token_ids":
		form = workload.TokenIDs
	case "text":
		form = workload.Text
	default:
		return nil, fmt.Errorf("prompts %q are not known: say \"token_ids\" or \"text\"", prompts)
	}
	switch {
	case d.forms[0] == workload.Messages:
		form = workload.Messages
	case !slices.Contains(d.forms, form):
		return nil, fmt.Errorf("prompts %q do not go with api %q: it takes only text", prompts, name)
	}
	return d.make(form), nil
}
