package plans

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Forms of prompts that are not chat messages.
const (
	promptIDs  = "token_ids"
	promptText = "text"
)

// apiFacts holds what plans need to know about an API. docs/plan.md lists the facts.
type apiFacts struct {
	// prompts are the forms that a prompt may have, the default one first. Empty for a chat API, whose prompts are
	// messages.
	prompts []string
	// auth is the header that carries api_key. Empty means Authorization.
	auth string
	// fields maps body fields that a plan cannot give, in addition to ownFields, to the reason.
	fields map[string]string
	// options is the body field that holds the output length in an object. inner maps the fields of that object that a
	// plan cannot give to the reason.
	options string
	inner   map[string]string
	// uncounted reports whether servers of this API never send the number of tokens of a prompt.
	uncounted bool
}

const (
	workloadsPrompt = "the workload makes the prompt"
	workloadsLength = "it is the workload's osl"
)

// apis maps the names of all APIs, as plans write them, to their facts.
var apis = map[string]apiFacts{
	"chat":        {},
	"completions": {prompts: []string{promptIDs, promptText}},
	"responses":   {fields: map[string]string{"input": workloadsPrompt, "max_output_tokens": workloadsLength}},
	"sglang": {
		prompts: []string{promptIDs, promptText},
		fields: map[string]string{"text": workloadsPrompt, "input_ids": workloadsPrompt,
			"input_embeds": workloadsPrompt},
		options: "sampling_params", inner: map[string]string{"max_new_tokens": workloadsLength},
	},
	"tgi": {
		prompts: []string{promptText},
		fields:  map[string]string{"inputs": workloadsPrompt},
		options: "parameters", inner: map[string]string{"max_new_tokens": workloadsLength,
			"details": "Spate asks for the usage by it"},
	},
	"triton": {prompts: []string{promptText}, fields: map[string]string{"text_input": workloadsPrompt},
		uncounted: true},
	"anthropic": {auth: "X-Api-Key", fields: map[string]string{"system": workloadsPrompt}},
}

// APIs returns the names of the APIs that a target can have, the default one first.
func APIs() []string {
	return []string{"chat", "completions", "responses", "sglang", "tgi", "triton", "anthropic"}
}

// factsOf returns the facts of a target's API.
func factsOf(t *spatev1.Target) apiFacts { return apis[cmp.Or(t.GetApi(), defaultAPI)] }

// usualPrompts returns the default form of an API's prompts. Empty means messages.
func (a apiFacts) usualPrompts() string {
	if len(a.prompts) == 0 {
		return ""
	}
	return a.prompts[0]
}

// sendsTokenIDs reports whether a target's prompts are token IDs.
func sendsTokenIDs(t *spatev1.Target) bool {
	return cmp.Or(t.GetPrompts(), factsOf(t).usualPrompts()) == promptIDs
}

// api checks the fields of a target that its API does not support.
func (c *checker) api(path string, t *spatev1.Target) {
	if _, known := apis[cmp.Or(t.GetApi(), defaultAPI)]; !known {
		return // the schema reports it
	}
	facts, name := factsOf(t), cmp.Or(t.GetApi(), defaultAPI)
	if at := path + ".prompts"; c.Has(at) {
		switch {
		case len(facts.prompts) == 0:
			c.wrong(at, fmt.Sprintf("does not go with api: %s, whose prompts are messages: leave it out", name))
		case t.GetPrompts() == promptIDs && !slices.Contains(facts.prompts, promptIDs):
			c.wrong(at, fmt.Sprintf("cannot be token_ids with api: %s, which takes text only", name))
		}
	}
	if counts := t.GetTokenizer() == "server" || t.GetTokenizer() == "usage"; counts && facts.uncounted {
		c.wrong(path+".tokenizer",
			fmt.Sprintf("cannot be %s with api: %s, whose servers count no tokens: give words or file:PATH",
				t.GetTokenizer(), name))
	}
}

// ownField returns why a plan cannot give a body field, or "" if it can.
func (a apiFacts) ownField(name string) string {
	if why := ownFields[name]; why != "" {
		return why
	}
	return a.fields[name]
}

// options checks the body object that holds the output length.
func (c *checker) options(path string, t *spatev1.Target) {
	facts := factsOf(t)
	given, ok := t.GetBody().GetFields()[facts.options]
	if facts.options == "" || !ok {
		return
	}
	at := path + "[" + strconv.Quote(facts.options) + "]"
	if given.GetStructValue() == nil {
		c.wrong(at, "must be an object")
		return
	}
	for _, name := range sortedKeys(given.GetStructValue().GetFields()) {
		if why := facts.inner[name]; why != "" {
			c.wrong(at, fmt.Sprintf("cannot have %s: %s", name, why))
		}
		if problem := fieldProblem(name, given.GetStructValue().GetFields()[name]); problem != "" {
			c.wrong(at, name+" "+problem)
		}
	}
}
