package preparation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// engines are software that says of itself, as the owner of its models what it is. All of them take ignore_eos and min_tokens in OpenAI's
// chat and completions.
var engines = map[string]string{
	"vllm":         "vLLM",
	"sglang":       "SGLang",
	"tensorrt_llm": "TensorRT-LLM",
	ownSimulator:   "Spate simulator",
}

// others are servers that are known by their APIs.
var others = map[string]string{"tgi": "TGI", "triton": "Triton"}

// ownSimulator is the owner of the simulator's models. It serves a model of any name unless it is given one.
const ownSimulator = "spate"

// server finds out what the server is and which model it serves.
func (f *finder) server(ctx context.Context) {
	models, err := f.client.Models(ctx, endpoint)
	if err != nil {
		f.silent = unreachable(err)
		f.note("The server does not list its models (%v): neither its software nor its longest prompt is known.", err)
		return
	}
	model := f.model(models)
	f.owner = model.Owner
	f.most(model.MaxModelTokens)
	name := cmp.Or(engines[model.Owner], others[model.Owner])
	if name == "" {
		return
	}
	if version, err := f.client.Version(ctx, endpoint); err == nil && version != "" {
		name += " " + version
	}
	f.found.Preparation.Server = name
}

// unreachable says whether an error is that of an endpoint that does not answer at all.
func unreachable(err error) bool {
	known, ok := errors.AsType[*stream.Error](err)
	if !ok {
		return true // of the context
	}
	switch known.Class {
	case spatev1.ErrorClass_ERROR_CLASS_CONNECT, spatev1.ErrorClass_ERROR_CLASS_TLS, spatev1.ErrorClass_ERROR_CLASS_TIMEOUT:
		return true
	}
	return false
}

// model picks the stage's model from the server's list. Of a model that is not in it nothing is known but the list's one owner.
func (f *finder) model(models []stream.Model) stream.Model {
	wanted := f.stage.GetTarget().GetModel()
	if name, ok := f.bodyField("model").(string); ok {
		wanted = name
	}
	i := slices.IndexFunc(models, func(m stream.Model) bool { return m.ID == wanted })
	switch {
	case len(models) == 0:
		f.note("The server lists no models.")
		return stream.Model{}
	case i >= 0:
		return models[i]
	case models[0].Owner == ownSimulator:
		return models[0]
	case wanted != "":
		f.note("The server does not list the model %q; it lists %s.", wanted, listed(models))
	}
	return stream.Model{Owner: models[0].Owner}
}

// listed names models, the first few of many.
func listed(models []stream.Model) string {
	const most = 5
	var names []string
	for _, m := range models[:min(len(models), most)] {
		names = append(names, fmt.Sprintf("%.100q", m.ID))
	}
	if more := len(models) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names, ", "), more)
	}
	return strings.Join(names, ", ")
}

// most takes down the longest prompt and output together.
func (f *finder) most(tokens uint32) {
	if tokens > 0 && f.found.Preparation.MaxModelTokens == nil {
		f.found.Preparation.MaxModelTokens = &tokens
	}
}

// eosField is the field of a body that says whether outputs go on beyond their end: its object, if it is in one, and its name.
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

// takesLength says whether the server is known to make outputs as long as is asked. Which is that goes by the API, where only one
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

// output decides whether requests ask for exactly OSL tokens.
func (f *finder) output() {
	wish := f.stage.GetTarget().GetExactOutput()
	p := f.found.Preparation
	switch name, asked := f.eos(); {
	case asked == true:
		p.ExactOutput = true
	case asked != nil:
		f.note("Outputs can be shorter than their OSL: the target's body says %s: %v.", name, asked)
	case wish == "always", wish != "never" && f.takesLength():
		p.ExactOutput = true
	case wish == "never":
		f.note("Outputs can be shorter than their OSL: the target says exact_output: never.")
	default:
		f.note("Outputs can be shorter than their OSL: the server is not known to take %s. If it does, set the target's exact_output to always.",
			lengthFields(f.api()))
	}
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
