package rules

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/bodies"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

const (
	workloadsPrompt = "the workload makes the prompt"
	workloadsLength = "it is the workload's osl"
)

// api checks the API of a target, and the fields that its API does not support.
func (c *checker) api(path string, t *spatev1.Target, simulated bool) {
	a, known := registry.Find(t.GetApi())
	if !known {
		c.wrong(path+".api", "must be one of "+strings.Join(registry.Names(), ", "))
		return
	}
	if simulated && a.Unsimulated {
		c.wrong(path+".api", fmt.Sprintf("cannot be simulated: the simulator does not answer api: %s", a.Name))
	}
	if at := path + ".prompts"; c.Has(at) {
		_, takesIDs := a.Prompt(workload.TokenIDs)
		switch {
		case a.Chat():
			c.wrong(at, fmt.Sprintf("does not work with api: %s, whose prompts are messages: leave it out", a.Name))
		case t.GetPrompts() == defaults.PromptIDs && !takesIDs:
			c.wrong(at, fmt.Sprintf("cannot be token_ids with api: %s, which takes text only", a.Name))
		}
	}
	if counts := t.GetTokenizer() == "server" || t.GetTokenizer() == "usage"; counts && a.Uncounted {
		c.wrong(path+".tokenizer",
			fmt.Sprintf("cannot be %s with api: %s, whose servers count no tokens: give words or file:PATH",
				t.GetTokenizer(), a.Name))
	}
}

// ownFields maps the body fields that Spate sets itself, with any API, to the reason why a plan cannot give them.
var ownFields = map[string]string{
	"stream":     "give it as the target's stream",
	"messages":   workloadsPrompt,
	"prompt":     workloadsPrompt,
	"model":      "give it as the target's model",
	"max_tokens": workloadsLength,
}

// fieldsOf returns ownFields and those of an API, and the fields that a plan cannot give in the object that holds the
// output length, nil if the API has no such object.
func fieldsOf(a *api.API) (body, options map[string]string) {
	body = maps.Clone(ownFields)
	for _, name := range a.PromptFields() {
		body[name] = workloadsPrompt
	}
	if len(a.MaxFields) == 0 {
		delete(body, "max_tokens") // it may mean something else
		return body, nil
	}
	if a.Options == "" {
		body[a.MaxFields[0]] = workloadsLength
		return body, nil
	}
	options = map[string]string{a.MaxFields[0]: workloadsLength}
	maps.Copy(options, a.Reserved)
	return body, options
}

// options checks the body object that holds the output length.
func (c *checker) options(path string, t *spatev1.Target) {
	a := defaults.API(t)
	given, ok := t.GetBody().GetFields()[a.Options]
	if a.Options == "" || !ok {
		return
	}
	at := path + "[" + strconv.Quote(a.Options) + "]"
	if given.GetStructValue() == nil {
		c.wrong(at, "must be an object")
		return
	}
	_, reserved := fieldsOf(a)
	for _, name := range slices.Sorted(maps.Keys(given.GetStructValue().GetFields())) {
		if isNull(given.GetStructValue().GetFields()[name]) {
			continue
		}
		if why := reserved[name]; why != "" {
			c.wrong(at, fmt.Sprintf("cannot have %s: %s", name, why))
		}
		if problem := fieldProblem(name, given.GetStructValue().GetFields()[name]); problem != "" {
			c.wrong(at, name+" "+problem)
		}
	}
}

// choiceFields ask for several answers in one stream.
var choiceFields = []string{"n", "best_of"}

func (c *checker) body(path string, t *spatev1.Target) {
	own, _ := fieldsOf(defaults.API(t))
	for _, name := range slices.Sorted(maps.Keys(t.GetBody().GetFields())) {
		at := path + "[" + strconv.Quote(name) + "]"
		if secret.FieldName(name) {
			c.wrong(at, "has the name of a secret, and plans are stored with results: "+
				"send it by api_key or in a header, as env:NAME or file:PATH")
		}
		if isNull(t.GetBody().GetFields()[name]) && name != "stream" && own[name] != workloadsPrompt {
			continue // the field is left out
		}
		if why := own[name]; why != "" {
			c.wrong(at, "cannot be given: "+why)
		}
		if problem := fieldProblem(name, t.GetBody().GetFields()[name]); problem != "" {
			c.wrong(at, problem)
		}
	}
	c.options(path, t)
}

// fieldProblem returns what is wrong with the value of a field that Spate depends on, or "" if nothing is.
func fieldProblem(name string, value *structpb.Value) string {
	switch {
	case slices.Contains(choiceFields, name) && value.GetNumberValue() != 1:
		return "must be 1: the tokens of several answers in one stream cannot be told apart; send more requests instead"
	case name == "stream_options" && value.GetStructValue() == nil:
		return "must be an object, such as {continuous_usage_stats: false}"
	case name == "stream_options" && givesFalse(value.GetStructValue(), "include_usage"):
		return "must not have include_usage: false: without usage, tokens cannot be counted"
	}
	return ""
}

// isNull reports whether a value is null: a plan leaves a field out of its requests by that.
func isNull(value *structpb.Value) bool {
	_, null := value.GetKind().(*structpb.Value_NullValue)
	return null
}

// givesFalse reports whether an object gives a field any value other than true.
func givesFalse(object *structpb.Struct, name string) bool {
	value, given := object.GetFields()[name]
	return given && !value.GetBoolValue()
}

// template checks the API that a target describes. discover: files of the plan will be read.
func (c *checker) template(path string, t *spatev1.Target, discover bool) {
	at, s := path+".template", t.GetTemplate()
	switch used := t.GetApi() == registry.TemplateName; {
	case used && s == nil:
		c.wrong(path+".api", "needs the target's template: give its path and body")
		return
	case !used && c.Has(at):
		c.wrong(at, "works only with api: template")
		return
	case !used:
		return
	}
	c.templateBody(at, t, discover)
	streams := s.GetStream() == registry.SSE || s.GetStream() == registry.Lines
	if streams && s.GetText() == "" {
		c.wrong(at+".stream", "needs text: without it no event has a token")
	}
	for _, field := range []string{"stream", "body", "prompts"} {
		if c.Has(path + "." + field) {
			c.wrong(path+"."+field, "does not work with api: template, whose template says it")
		}
	}
}

// templateBody checks what a template sends: a body, or a form.
func (c *checker) templateBody(path string, t *spatev1.Target, discover bool) {
	body, formed := t.GetTemplate().GetBody(), c.Given(path, "form", "files")
	switch {
	case body == "" && len(formed) == 0:
		c.absent(path, "has neither body nor form: give one of them", "body", "form")
	case body != "" && len(formed) > 0:
		c.wrong(path+"."+formed[0], "give body or form, not both")
	case len(formed) > 0:
		c.formFields(path, t, discover)
	default:
		if _, err := bodies.Template(body, t.GetModel()); err != nil {
			c.wrong(path+".body", err.Error())
		}
	}
}

// formFields checks the fields and files of a form.
func (c *checker) formFields(path string, t *spatev1.Target, discover bool) {
	found := len(c.found)
	for _, name := range slices.Sorted(maps.Keys(t.GetTemplate().GetForm())) {
		if _, err := bodies.FormField(name, t.GetTemplate().GetForm()[name], t.GetModel()); err != nil {
			c.wrong(fmt.Sprintf("%s.form[%s]", path, strconv.Quote(name)), err.Error())
		}
	}
	for i, f := range t.GetTemplate().GetFiles() {
		at := fmt.Sprintf("%s.files[%d]", path, i)
		if _, err := base64.StdEncoding.DecodeString(f.GetContent()); err != nil {
			c.wrong(at+".content", "must be Base64: "+err.Error())
		} else if f.GetContent() == "" && f.GetPath() != "" && !discover {
			c.wrong(at+".path", unread)
		}
	}
	if _, err := bodies.Form(defaults.Template(t).Form, t.GetModel()); err != nil && len(c.found) == found {
		c.wrong(path+".form", err.Error())
	}
}
