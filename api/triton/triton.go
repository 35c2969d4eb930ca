// Package triton is the generate extension of NVIDIA's Triton.
package triton

import (
	"context"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// API is POST /v2/models/MODEL/generate_stream of Triton with TensorRT-LLM. Its frames have text and nothing else:
// each frame counts as one output token, and a stream that ended in order is complete.
var API = api.API{
	Name: "triton", Path: "/v2/models/MODEL/generate_stream", WholePath: "/v2/models/MODEL/generate",
	Prompts:   []api.Prompt{{Form: workload.Text, Field: "text_input"}},
	Defaults:  map[string]any{"stream": true, "bad_words": "", "stop_words": ""}, // older versions require them all
	MaxFields: []string{"max_tokens"},
	// Older versions call it min_length. Triton treats a field without a model input as a parameter and ignores it.
	MinFields: []string{"min_tokens", "min_length"}, AlwaysExact: true, NoEndMark: true,
	Uncounted: true, Parse: parse, Describe: describe, Count: count,
}

var frameFields = []string{"text_output", "error", "model_name"}

func parse(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [3][]byte
	if err := jsonscan.Members(e.Data, frameFields, v[:]); err != nil {
		return err
	}
	if jsonscan.Filled(v[1]) {
		f.Fail(nil, v[1])
		return nil
	}
	f.Chunk, f.Model = len(v[0]) > 0, v[2]
	f.Answer, f.Span = jsonscan.Unquoted(v[0]), api.SpanUnsure
	return nil
}

// describe asks GET /v2/models/MODEL and GET /v2.
func describe(ctx context.Context, s api.Server) ([]api.Model, string, error) {
	var model struct{ Name string }
	if err := s.Get(ctx, "/v2/models/"+api.EscapeModel(s.Model()), &model); err != nil {
		return nil, "", err
	}
	var server struct{ Version string }
	err := s.Get(ctx, "/v2", &server)
	return []api.Model{{ID: model.Name, Owner: "triton"}}, server.Version, err
}

// count always fails: Triton counts no tokens.
func count(_ context.Context, s api.Server, _ string, _ bool) (api.Tokens, error) {
	return api.Tokens{}, s.Unusable("/tokenize", "this API cannot count tokens")
}
