package preparation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// engine is software that says of itself, as the owner of its models, what it is. All of them take ignore_eos and min_tokens.
var engines = map[string]string{
	"vllm":         "vLLM",
	"sglang":       "SGLang",
	"tensorrt_llm": "TensorRT-LLM",
	ownSimulator:   "Spate simulator",
}

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
	name, known := engines[model.Owner]
	if !known {
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

// output decides whether requests ask for exactly OSL tokens.
func (f *finder) output() {
	_, known := engines[f.owner]
	wish := f.stage.GetTarget().GetExactOutput()
	p := f.found.Preparation
	switch asked := f.bodyField("ignore_eos"); {
	case asked == true:
		p.ExactOutput = true
	case asked != nil:
		f.note("Outputs can be shorter than their OSL: the target's body says ignore_eos: %v.", asked)
	case wish == "always", wish != "never" && known:
		p.ExactOutput = true
	case wish == "never":
		f.note("Outputs can be shorter than their OSL: the target says exact_output: never.")
	default:
		f.note("Outputs can be shorter than their OSL: the server is not known to take ignore_eos and min_tokens. If it does, set the target's exact_output to always.")
	}
}
