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
		c.wrong(path+".api", "must be one of %s", strings.Join(registry.Names(), ", "))
		return
	}
	c.refuse(simulated && a.Unsimulated, path+".api", "cannot be simulated: the simulator does not answer api: %s",
		a.Name)
	if at := path + ".prompts"; c.Has(at) {
		_, takesIDs := a.Prompt(workload.TokenIDs)
		switch {
		case a.Chat():
			c.wrong(at, "does not work with api: %s, whose prompts are messages: leave it out", a.Name)
		case t.GetPrompts() == defaults.PromptIDs && !takesIDs:
			c.wrong(at, "cannot be token_ids with api: %s, which takes text only", a.Name)
		}
	}
	c.refuse((t.GetTokenizer() == "server" || t.GetTokenizer() == "usage") && a.Uncounted, path+".tokenizer",
		"cannot be %s with api: %s, whose servers count no tokens: give words or file:PATH", t.GetTokenizer(), a.Name)
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
		c.refuse(reserved[name] != "", at, "cannot have %s: %s", name, reserved[name])
		problem := fieldProblem(name, given.GetStructValue().GetFields()[name])
		c.refuse(problem != "", at, "%s %s", name, problem)
	}
}

// choiceFields ask for several answers in one stream.
var choiceFields = []string{"n", "best_of"}

func (c *checker) body(path string, t *spatev1.Target) {
	own, _ := fieldsOf(defaults.API(t))
	for _, name := range slices.Sorted(maps.Keys(t.GetBody().GetFields())) {
		at := path + "[" + strconv.Quote(name) + "]"
		c.refuse(secret.FieldName(name), at, "has the name of a secret, and plans are stored with results: send it "+
			"by api_key or in a header, as env:NAME or file:PATH")
		if isNull(t.GetBody().GetFields()[name]) && name != "stream" && own[name] != workloadsPrompt {
			continue // the field is left out
		}
		c.refuse(own[name] != "", at, "cannot be given: %s", own[name])
		c.problem(at, fieldProblem(name, t.GetBody().GetFields()[name]))
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
	c.refuse(streams && s.GetText() == "", at+".stream", "needs text: without it no event has a token")
	c.without(path, "does not work with api: template, whose template says it", "stream", "body", "prompts")
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
		_, err := bodies.Template(body, t.GetModel())
		c.problem(path+".body", err)
	}
}

// formFields checks the fields and files of a form.
func (c *checker) formFields(path string, t *spatev1.Target, discover bool) {
	found := len(c.found)
	for _, name := range slices.Sorted(maps.Keys(t.GetTemplate().GetForm())) {
		_, err := bodies.FormField(name, t.GetTemplate().GetForm()[name], t.GetModel())
		c.problem(fmt.Sprintf("%s.form[%s]", path, strconv.Quote(name)), err)
	}
	for i, f := range t.GetTemplate().GetFiles() {
		at := fmt.Sprintf("%s.files[%d]", path, i)
		if _, err := base64.StdEncoding.DecodeString(f.GetContent()); err != nil {
			c.wrong(at+".content", "must be Base64: %v", err)
		} else if f.GetContent() == "" && f.GetPath() != "" && !discover {
			c.wrong(at+".path", "%s", unread)
		}
	}
	_, err := bodies.Form(defaults.Template(t).Form, t.GetModel())
	c.refuse(err != nil && len(c.found) == found, path+".form", "%v", err)
}
