package preparation

import (
	"context"
	"slices"
	"strings"

	"github.com/spate-load/spate/agent/stream"
)

// eosField is the field of a body that says whether outputs go on beyond their end: its object, if it is in one, and
// its name.
func eosField(api string) (object, name string) {
	switch api {
	case "sglang":
		return "sampling_params", "ignore_eos"
	case "tgi":
		return "parameters", "ignore_eos_token"
	}
	return "", "ignore_eos"
}

// eos is what the plan's body says of the end of outputs. nil: nothing.
func (f *finder) eos() (name string, asked any) {
	object, name := eosField(f.api())
	if object == "" {
		return name, f.bodyField(name)
	}
	options, _ := f.bodyField(object).(map[string]any)
	return object + "." + name, options[name]
}

// How ExactOutput was found out.
const (
	byPlan  = "plan"
	byName  = "known"
	byTrial = "tried"
)

// output decides whether requests ask for exactly OSL tokens, and for the usage so far in each frame.
//
// That a server takes a field cannot be seen from one answer: many take any field and ignore those they do not know,
// and an output of the length asked may be chance. So the server is asked twice. A request for exactly 16 tokens must
// be answered with 16 by its usage; and the same request with a text in place of ignore_eos, or else of min_tokens,
// must be refused: whoever checks the type of a field reads it. Gateways hand such a refusal on. A server that names
// itself as one that takes the fields only has to keep to the first request. A wrong yes is seen in the results, where
// the osl check compares the lengths; a wrong no is a note that says what to set.
func (f *finder) output(ctx context.Context) {
	open, running := f.exactByPlan(), f.runningByPlan()
	exact := open && f.stage.GetTarget().GetExactOutput() == "auto"
	own := f.owner == ownSimulator
	if tries(f.api()) && !f.silent && !own && (exact || running) {
		ctx, cancel := context.WithTimeout(ctx, trialLimit)
		defer cancel()
		f.tryOutput(ctx, wishes{open, exact, running})
		return
	}
	if running {
		f.found.Preparation.RunningUsage = own
	}
	if open {
		f.exactByName("")
	}
}

// wishes are what a trial is to find out.
type wishes struct {
	open    bool // whether outputs can be forced is not decided by the plan
	exact   bool // and may be tried
	running bool
}

// tries reports whether an API's requests can be tried.
func tries(api string) bool {
	return slices.Contains([]string{"", "chat", "completions", "responses", "anthropic"}, api)
}

// exactByPlan decides by the plan whether outputs are forced, where it says something, and reports whether it is left
// open.
func (f *finder) exactByPlan() (open bool) {
	p, wish := f.found.Preparation, f.stage.GetTarget().GetExactOutput()
	switch name, asked := f.eos(); {
	case asked == true, asked == nil && wish == "always":
		p.ExactOutput, p.ExactOutputBy = true, byPlan
	case asked != nil:
		f.note("Outputs can be shorter than their OSL: the target's body says %s: %v.", name, asked)
	case wish == "never":
		f.note("Outputs can be shorter than their OSL: the target says exact_output: never.")
	default:
		return true
	}
	return false
}

// runningByPlan is the same for the usage so far. A stage without the field was made by no plan: it is not asked for.
func (f *finder) runningByPlan() (open bool) {
	if f.api() != "chat" && f.api() != "completions" {
		return false
	}
	options, _ := f.bodyField("stream_options").(map[string]any)
	switch asked, given := options["continuous_usage_stats"].(bool); {
	case given:
		f.found.Preparation.RunningUsage = asked
		return false
	case f.stage.GetTarget().GetRunningUsage() == "always":
		f.found.Preparation.RunningUsage = true
		return false
	}
	return f.stage.GetTarget().GetRunningUsage() == "auto"
}

// exactByName decides by what the server calls itself. Why says why nothing better is known. Empty: it is not worth
// telling.
func (f *finder) exactByName(why string) {
	if f.takesLength() {
		f.found.Preparation.ExactOutput, f.found.Preparation.ExactOutputBy = true, byName
		return
	}
	if why == "" {
		why = "the server is not known to take " + lengthFields(f.api())
	}
	f.inexact(why)
}

// inexact notes why outputs are not forced.
func (f *finder) inexact(why string) {
	f.note("Outputs can be shorter than their OSL: %s. If the server does make outputs of the length asked, set the target's exact_output to always.", why)
}

// takesLength reports whether the server is known to make outputs as long as is asked: by the API, where only one
// server has it, and else by what the server calls itself.
func (f *finder) takesLength() bool {
	switch f.api() {
	case "sglang", "triton":
		return true
	case "tgi", "anthropic": // TGI never lets outputs go on, Anthropic's API refuses fields that it does not know
		return f.owner == ownSimulator
	case "responses": // it has no min_tokens
		return f.owner == ownSimulator || f.owner == "vllm"
	}
	_, known := engines[f.owner]
	return known
}

// lengthFields names what asks for exact outputs.
func lengthFields(api string) string {
	switch api {
	case "tgi":
		return "ignore_eos_token"
	case "responses":
		return "ignore_eos"
	}
	return "ignore_eos and min_tokens"
}

// What is tried: a question that people answer with one word, and more tokens than that.
const (
	trialText   = "Answer with one word: is water wet?"
	trialTokens = 16
)

// attempt sends one trial.
func (f *finder) attempt(ctx context.Context, a stream.Attempt) (stream.Trial, error) {
	a.Text, a.Tokens = trialText, trialTokens
	f.ask()
	return f.client.Try(ctx, endpoint, a)
}

// tryOutput finds out what of both the server takes.
func (f *finder) tryOutput(ctx context.Context, w wishes) {
	taken, trial, err := f.taken(ctx, w.exact, w.running)
	if err != nil {
		f.broken = true
		f.note("A short request to the server failed: %v.", err)
		if w.open {
			f.exactByName("a short request that would have shown what the server takes failed")
		}
		return
	}
	f.name(trial.Software)
	if w.running {
		f.found.Preparation.RunningUsage = taken.Running && trial.Running
	}
	switch {
	case !w.open:
	case !w.exact:
		f.exactByName("")
	case !taken.Exact:
		f.inexact("the server refuses " + lengthFields(f.api()))
	case trial.Output == 0:
		f.exactByName("the server does not say how many tokens it made")
	case trial.Output != trialTokens:
		f.note("Outputs can be shorter than their OSL: asked for exactly %d tokens by %s, the server made %d.",
			trialTokens, lengthFields(f.api()), trial.Output)
	case f.takesLength():
		f.exactByName("")
	default:
		f.proveExact(ctx)
	}
}

// taken tries both wishes, then each alone, then none, until the server takes a request.
func (f *finder) taken(ctx context.Context, exact, running bool) (stream.Attempt, stream.Trial, error) {
	var refused error
	var before []stream.Attempt
	for _, a := range []stream.Attempt{{Exact: exact, Running: running}, {Exact: exact}, {Running: running}, {}} {
		if slices.Contains(before, a) {
			continue
		}
		before = append(before, a)
		trial, err := f.attempt(ctx, a)
		if err == nil || !stream.Refused(err) {
			return a, trial, err
		}
		refused = err
	}
	return stream.Attempt{}, stream.Trial{}, refused
}

// proveExact looks whether the server reads the fields that ask for exact outputs.
func (f *finder) proveExact(ctx context.Context) {
	for field := range strings.SplitSeq(lengthFields(f.api()), " and ") {
		if _, err := f.attempt(ctx, stream.Attempt{Wrong: field}); stream.Refused(err) {
			f.found.Preparation.ExactOutput, f.found.Preparation.ExactOutputBy = true, byTrial
			return
		}
	}
	f.inexact("the server takes any value for " + lengthFields(f.api()) + ", so nothing shows that it reads them")
}

// name takes down the software that an answer names. What the server calls itself is more exact if it is the same.
func (f *finder) name(software []string) {
	p := f.found.Preparation
	if p.Server != "" && !strings.HasPrefix(strings.Join(software, " "), "LiteLLM") {
		return
	}
	p.Server = strings.Join(software, " before ")
}
