// Package tgi is the API of Hugging Face's Text Generation Inference.
package tgi

import (
	"context"
	"encoding/json"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// API is POST /generate_stream: one frame for each token. The last frame also has the details of the whole answer.
var API = api.API{
	Name: "tgi", Path: "/generate_stream", WholePath: "/generate",
	Prompts:  []api.Prompt{{Form: workload.Text, Field: "inputs"}},
	Defaults: map[string]any{"parameters": map[string]any{"details": true}}, Options: "parameters",
	Reserved:  map[string]string{"details": "Spate asks for the usage by it"},
	MaxFields: []string{"max_new_tokens"}, IgnoreEOS: "ignore_eos_token",
	Parse: parse, Describe: describe, Count: count,
	Forms: []api.Form{{Kind: api.FormSchema, Path: "parameters.grammar.value"}},
	Demand: func(schema any) map[string]any {
		return map[string]any{"parameters": map[string]any{"grammar": map[string]any{"type": "json", "value": schema}}}
	},
}

// Members of a frame, of its token, and of the details.
var (
	frameFields  = []string{"token", "generated_text", "details", "error", "error_type"}
	tokenFields  = []string{"text", "special"}
	detailFields = []string{"finish_reason", "generated_tokens", "input_length"}
)

func parse(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [5][]byte
	if err := jsonscan.Members(e.Data, frameFields, v[:]); err != nil {
		return err
	}
	token, all, details, fault := v[0], v[1], v[2], v[3]
	if jsonscan.Filled(fault) {
		f.Fail(jsonscan.StringBytes(v[4]), fault)
		return nil
	}
	f.End = len(all) > 0 && all[0] == '"'
	var t [2][]byte
	jsonscan.NestedMembers(token, tokenFields, t[:])
	switch {
	case len(token) == 0: // an answer in one piece
		f.Answer = jsonscan.Unquoted(all)
	case string(t[1]) != "true": // the end-of-sequence token has no text
		f.Answer = jsonscan.Unquoted(t[0])
	}
	f.OneToken = jsonscan.Filled(token)
	f.TextBytes = len(f.Answer)
	f.HasAnswer, f.Token = f.TextBytes > 0, f.TextBytes > 0 || f.OneToken
	f.Chunk = f.Token
	var d [3][]byte
	jsonscan.NestedMembers(details, detailFields, d[:])
	f.Finish = jsonscan.StringBytes(d[0])
	f.SetUsage(d[2], nil, d[1])
	return nil
}

// describe asks GET /info.
func describe(ctx context.Context, s api.Server) ([]api.Model, string, error) {
	var answer struct {
		Model   string      `json:"model_id"`
		Longest json.Number `json:"max_total_tokens"`
		Version string      `json:"version"`
	}
	if err := s.Get(ctx, "/info", &answer); err != nil {
		return nil, "", err
	}
	model := api.Model{ID: answer.Model, Owner: "tgi", MaxModelTokens: api.TokenLimit(answer.Longest)}
	return []api.Model{model}, answer.Version, nil
}

// count asks POST /tokenize, which answers with a list of the text's tokens.
func count(ctx context.Context, s api.Server, text string, _ bool) (api.Tokens, error) {
	var tokens []json.RawMessage
	err := s.Post(ctx, "/tokenize", map[string]any{"inputs": text}, &tokens)
	return api.Tokens{Count: uint64(len(tokens))}, err
}
