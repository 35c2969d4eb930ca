package plans

import (
	"fmt"
	"slices"
	"strconv"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Forms of prompts that are no messages.
const (
	promptIDs  = "token_ids"
	promptText = "text"
)

// apiFacts is what a plan must know of an API. docs/plan.md lists them.
type apiFacts struct {
	// prompts are the forms of its prompts, the usual one first. None: it is a chat, whose prompts are messages.
	prompts []string
	// auth is the header that api_key sends, where it is not Authorization.
	auth string
	// fields of a body are Spate's own, beside those of all APIs.
	fields map[string]string
	// options is the object of a body with the fields that are Spate's own in it.
	options string
	inner   map[string]string
	// uncounted says that its servers tell of no prompt how many tokens it has.
	uncounted bool
}

const (
	workloadsPrompt = "the workload makes the prompt"
	workloadsLength = "it is the workload's osl"
)

// apis are all, by the names that plans have for them.
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

// APIs are the names of the APIs that a target can have, the usual one first.
func APIs() []string {
	return []string{"chat", "completions", "responses", "sglang", "tgi", "triton", "anthropic"}
}

// factsOf are those of a target's API.
func factsOf(t *spatev1.Target) apiFacts { return apis[or(t.GetApi(), defaultAPI)] }

// usualPrompts is the form of an API's prompts. Empty: messages.
func (a apiFacts) usualPrompts() string {
	if len(a.prompts) == 0 {
		return ""
	}
	return a.prompts[0]
}

// sendsTokenIDs says whether a target's prompts are token ids.
func sendsTokenIDs(t *spatev1.Target) bool {
	return or(t.GetPrompts(), factsOf(t).usualPrompts()) == promptIDs
}

// api checks what a target's API cannot have.
func (c *checker) api(path string, t *spatev1.Target) {
	if _, known := apis[or(t.GetApi(), defaultAPI)]; !known {
		return // the schema says so
	}
	facts, name := factsOf(t), or(t.GetApi(), defaultAPI)
	if at := path + ".prompts"; c.has(at) {
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

// ownField says why a field of a body cannot be given. Empty: it can.
func (a apiFacts) ownField(name string) string {
	if why := ownFields[name]; why != "" {
		return why
	}
	return a.fields[name]
}

// options checks the object of a body that holds the length.
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
