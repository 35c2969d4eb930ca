package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
)

const (
	workloadsPrompt = "the workload makes the prompt"
	workloadsLength = "it is the workload's osl"
)

// api checks the API of a target, and the fields that its API does not support.
func (c *checker) api(path string, t *spatev1.Target) {
	a, known := registry.Find(t.GetApi())
	if !known {
		c.wrong(path+".api", "must be one of "+strings.Join(registry.Names(), ", "))
		return
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
		if why := reserved[name]; why != "" {
			c.wrong(at, fmt.Sprintf("cannot have %s: %s", name, why))
		}
		if problem := fieldProblem(name, given.GetStructValue().GetFields()[name]); problem != "" {
			c.wrong(at, name+" "+problem)
		}
	}
}
