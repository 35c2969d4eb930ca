package registry

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// TGI is POST /generate_stream of Hugging Face's Text Generation Inference: one frame for each token. The last frame
// also has the details of the whole answer.
var TGI = shipped(api.API{
	Name: "tgi", Path: "/generate_stream", WholePath: "/generate",
	Prompts:  []api.Prompt{{Form: workload.Text, Field: "inputs"}},
	Defaults: map[string]any{"parameters": map[string]any{"details": true}}, Options: "parameters",
	Reserved:  map[string]string{"details": "Spate asks for the usage by it"},
	MaxFields: []string{"max_new_tokens"}, IgnoreEOS: "ignore_eos_token",
	Describe: described("tgi", question{path: "/info", model: "model_id", limit: "max_total_tokens", version: "version"}),
	Count: func(ctx context.Context, s api.Server, text string, _ bool) (api.Tokens, error) {
		var tokens []json.RawMessage
		err := s.Post(ctx, "/tokenize", map[string]any{"inputs": text}, &tokens)
		return api.Tokens{Count: uint64(len(tokens))}, err
	},
	Forms: []api.Form{{Kind: api.FormSchema, Path: "parameters.grammar.value"}},
	Demand: func(schema any) map[string]any {
		return map[string]any{"parameters": map[string]any{"grammar": map[string]any{"type": "json", "value": schema}}}
	},
}, Template{
	Text: "token.text", Finish: "details.finish_reason", Error: "error",
	InputTokens: "details.input_length", OutputTokens: "details.generated_tokens",
	token: "token", special: "token.special", whole: "generated_text", kind: "error_type",
})

// Triton is POST /v2/models/MODEL/generate_stream of NVIDIA's Triton with TensorRT-LLM. Its frames have text and
// nothing else: each frame counts as one output token, and a stream that ended in order is complete.
var Triton = shipped(api.API{
	Name: "triton", Path: "/v2/models/MODEL/generate_stream", WholePath: "/v2/models/MODEL/generate",
	Prompts:   []api.Prompt{{Form: workload.Text, Field: "text_input"}},
	Defaults:  map[string]any{"stream": true, "bad_words": "", "stop_words": ""}, // older versions require them all
	MaxFields: []string{"max_tokens"},
	// Older versions call it min_length. Triton treats a field without a model input as a parameter and ignores it.
	MinFields: []string{"min_tokens", "min_length"}, AlwaysExact: true, NoEndMark: true, Uncounted: true,
	Describe: described("triton", question{path: "/v2/models/MODEL", model: "name"}, question{path: "/v2", version: "version"}),
	Count: func(_ context.Context, s api.Server, _ string, _ bool) (api.Tokens, error) {
		return api.Tokens{}, s.Unusable("/tokenize", "this API cannot count tokens")
	},
}, Template{Text: "text_output", Error: "error", model: "model_name"})

// shipped completes an API whose answers are objects that are read by paths.
func shipped(a api.API, s Template) *api.API {
	a.Unsimulated = true
	a.Parse = func(e api.Event, f *api.Frame) error {
		err := s.parse(e, f)
		if err == nil && !templateObject(e.Data) {
			return jsonscan.ErrNotObject
		}
		return err
	}
	return &a
}

// question is a GET request, and the paths of what is wanted of its answer. Empty: nothing.
type question struct{ path, model, limit, version string }

// described returns the function that describes servers of an owner by questions. MODEL in a path stands for the model.
func described(owner string, all ...question) func(context.Context, api.Server) ([]api.Model, string, error) {
	return func(ctx context.Context, s api.Server) (models []api.Model, version string, err error) {
		for _, q := range all {
			var answer json.RawMessage
			if err := s.Get(ctx, strings.ReplaceAll(q.path, "MODEL", api.EscapeModel(s.Model())), &answer); err != nil {
				return models, version, err
			}
			if q.model != "" {
				models = []api.Model{{ID: gjson.GetBytes(answer, q.model).String(), Owner: owner,
					MaxModelTokens: api.TokenLimit(json.Number(gjson.GetBytes(answer, q.limit).Raw))}}
			}
			if q.version != "" {
				version = gjson.GetBytes(answer, q.version).String()
			}
		}
		return models, version, nil
	}
}
