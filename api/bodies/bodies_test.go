package bodies_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/workload"
)

func TestBodies(t *testing.T) {
	text := func(dst []byte) []byte { return append(dst, `"one two"`...) }
	for name, tt := range map[string]struct {
		config stream.Config
		want   string
	}{
		"chat": {stream.Config{Model: "m"},
			`{"max_tokens":8,"messages":"one two","model":"m","stream":true,"stream_options":{"include_usage":true}}`},
		"completions": {stream.Config{Model: "a<b", API: "completions"},
			`{"max_tokens":8,"model":"a<b","prompt":"one two","stream":true,"stream_options":{"include_usage":true}}`},
		"extra fields": {stream.Config{Body: map[string]any{"ignore_eos": true, "temperature": 0.0, "a": []any{1.0, "x", nil},
			"stream_options": map[string]any{"z": 1, "b": "&"}}},
			`{"a":[1,"x",null],"ignore_eos":true,"max_tokens":8,"messages":"one two","model":"","stream":true,"stream_options":{"b":"&","include_usage":true,"z":1},"temperature":0}`},
		"other length": {stream.Config{Body: map[string]any{"max_completion_tokens": 5, "model": "other"}},
			`{"max_completion_tokens":5,"messages":"one two","model":"other","stream":true,"stream_options":{"include_usage":true}}`},
		"fields left out": {stream.Config{Model: "m", ExactOutput: true, Body: map[string]any{"max_tokens": nil,
			"stream_options": nil, "min_tokens": nil, "temperature": nil}},
			`{"ignore_eos":true,"max_completion_tokens":8,"messages":"one two","model":"m","stream":true}`},
		"no length": {stream.Config{Body: map[string]any{"max_tokens": nil, "max_completion_tokens": nil, "model": nil}},
			`{"messages":"one two","stream":true,"stream_options":{"include_usage":true}}`},
		"option left out": {stream.Config{API: "sglang", Prompts: "text",
			Body: map[string]any{"sampling_params": map[string]any{"max_new_tokens": nil, "a": 1}}},
			`{"sampling_params":{"a":1},"stream":true,"text":"one two"}`},
		"fixed length": {stream.Config{API: "completions", Body: map[string]any{"max_tokens": 3}},
			`{"max_tokens":3,"model":"","prompt":"one two","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output": {stream.Config{API: "completions", Prompts: "text", ExactOutput: true},
			`{"ignore_eos":true,"max_tokens":8,"min_tokens":8,"model":"","prompt":"one two","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output, other minimum": {stream.Config{ExactOutput: true, Body: map[string]any{"min_tokens": 1.0}},
			`{"ignore_eos":true,"max_tokens":8,"messages":"one two","min_tokens":1,"model":"","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output, fixed length": {stream.Config{ExactOutput: true, Body: map[string]any{"max_completion_tokens": 3.0}},
			`{"ignore_eos":true,"max_completion_tokens":3,"messages":"one two","model":"","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output, but the body lets outputs end": {stream.Config{ExactOutput: true,
			Body: map[string]any{"ignore_eos": false}},
			`{"ignore_eos":false,"max_tokens":8,"messages":"one two","model":"","stream":true,"stream_options":{"include_usage":true}}`},
		"exact output, body says so too": {stream.Config{ExactOutput: true, Body: map[string]any{"ignore_eos": true}},
			`{"ignore_eos":true,"max_tokens":8,"messages":"one two","model":"","stream":true,"stream_options":{"include_usage":true}}`},
		"running usage": {stream.Config{RunningUsage: true},
			`{"max_tokens":8,"messages":"one two","model":"","stream":true,"stream_options":{"continuous_usage_stats":true,"include_usage":true}}`},
		"running usage of completions, but the body says none": {
			stream.Config{API: "completions", RunningUsage: true,
				Body: map[string]any{"stream_options": map[string]any{"continuous_usage_stats": false}}},
			`{"max_tokens":8,"model":"","prompt":"one two","stream":true,"stream_options":{"continuous_usage_stats":false,"include_usage":true}}`},
		"running usage where there is none": {stream.Config{API: "tgi", RunningUsage: true},
			`{"inputs":"one two","parameters":{"details":true,"max_new_tokens":8}}`},
		"no stream": {stream.Config{Body: map[string]any{"stream": false}},
			`{"max_tokens":8,"messages":"one two","model":"","stream":false}`},
	} {
		tt.config.Endpoints = []string{"http://h"}
		c := streamtest.NewClient(t, tt.config)
		got := c.AppendBody([]byte("x"), 8, text)
		if string(got) != "x"+tt.want || !json.Valid(got[1:]) {
			t.Errorf("%s:\n got %s\nwant x%s", name, got, tt.want)
		}
	}
}

func TestForms(t *testing.T) {
	for _, tt := range []struct {
		api, prompts string
		want         workload.Form
	}{
		{"", "", workload.Messages}, {"chat", "token_ids", workload.Messages}, {"chat", "text", workload.Messages},
		{"completions", "", workload.TokenIDs}, {"completions", "token_ids", workload.TokenIDs},
		{"completions", "text", workload.Text},
	} {
		c := streamtest.NewClient(t, stream.Config{Endpoints: []string{"http://h"}, API: tt.api, Prompts: tt.prompts})
		if got := c.Form(); got != tt.want {
			t.Errorf("%s, %s: form %d, want %d", tt.api, tt.prompts, got, tt.want)
		}
	}
}

func TestDialectForms(t *testing.T) {
	for _, tt := range []struct {
		api, prompts string
		want         workload.Form
	}{
		{"responses", "", workload.Messages}, {"anthropic", "text", workload.Messages},
		{"sglang", "", workload.TokenIDs},
		{"sglang", "text", workload.Text}, {"tgi", "", workload.Text}, {"triton", "text", workload.Text},
	} {
		c := streamtest.NewClient(t, stream.Config{Endpoints: []string{"http://h"}, API: tt.api, Prompts: tt.prompts})
		if c.Form() != tt.want {
			t.Errorf("%s, %s: form %d", tt.api, tt.prompts, c.Form())
		}
	}
	for _, apiName := range []string{"tgi", "triton"} {
		if _, err := stream.New(stream.Config{Endpoints: []string{"http://h"}, API: apiName, Prompts: "token_ids"}); err == nil ||
			!strings.Contains(err.Error(), "takes only text") {
			t.Errorf("%s: %v", apiName, err)
		}
	}
}

// TestFieldsOfOptions checks fields that a plan adds to the object that holds an API's options.
func TestFieldsOfOptions(t *testing.T) {
	for _, tt := range []struct {
		exact bool
		given map[string]any
		want  string
	}{
		{true, map[string]any{"temperature": 0.0},
			`{"sampling_params":{"ignore_eos":true,"max_new_tokens":8,"min_new_tokens":8,"temperature":0},"stream":true,"text":"x"}`},
		{true, map[string]any{"ignore_eos": false},
			`{"sampling_params":{"ignore_eos":false,"max_new_tokens":8},"stream":true,"text":"x"}`},
		{true, map[string]any{"max_new_tokens": 3.0},
			`{"sampling_params":{"ignore_eos":true,"max_new_tokens":3},"stream":true,"text":"x"}`},
		{false, map[string]any{"stop": []any{"a"}},
			`{"sampling_params":{"max_new_tokens":8,"stop":["a"]},"stream":true,"text":"x"}`},
	} {
		c := streamtest.NewClient(t, stream.Config{
			Endpoints: []string{"http://h"}, API: "sglang", Prompts: "text", ExactOutput: tt.exact,
			Body: map[string]any{"sampling_params": tt.given},
		})
		if got := c.AppendBody(nil, 8,
			func(dst []byte) []byte { return append(dst, `"x"`...) }); string(got) != tt.want {
			t.Errorf("%v:\n got %s\nwant %s", tt.given, got, tt.want)
		}
	}
	for apiName, body := range map[string]map[string]any{
		"sglang": {"sampling_params": 7}, "tgi": {"inputs": "x"}, "triton": {"text_input": "x"},
		"responses": {"input": "x"}, "anthropic": {"system": "x"},
	} {
		if _, err := stream.New(stream.Config{Endpoints: []string{"http://h"}, API: apiName, Body: body}); err == nil ||
			!strings.Contains(err.Error(), "body field") {
			t.Errorf("%s: %v", apiName, err)
		}
	}
}

// TestSystemPrompts checks that a system prompt of any content becomes a separate field, and that the rest is
// unchanged.
func TestSystemPrompts(t *testing.T) {
	c := streamtest.NewClient(t, stream.Config{Endpoints: []string{"http://h"}, API: "anthropic"})
	type message struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	type parsed struct {
		System   any       `json:"system"`
		Messages []message `json:"messages"`
	}
	text := rapid.StringOf(rapid.SampledFrom([]rune(`ab"\,:[]{} é😀` + "\n")))
	rapid.Check(t, func(t *rapid.T) {
		var all []message
		system := rapid.Bool().Draw(t, "system")
		if system {
			all = append(all, message{"system", text.Draw(t, "content")})
		}
		for i := range rapid.IntRange(0, 3).Draw(t, "turns") {
			all = append(all, message{[]string{"user", "assistant"}[i%2], text.Draw(t, "content")})
		}
		written, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		if all == nil {
			written = []byte("[]")
		}
		var got parsed
		body := c.AppendBody([]byte(nil), 8, func(dst []byte) []byte { return append(dst, written...) })
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		if system {
			if got.System != all[0].Content {
				t.Fatalf("%s: system %v", body, got.System)
			}
			all = all[1:]
		}
		if !slices.Equal(got.Messages, all) {
			t.Fatalf("%s: messages %v, want %v", body, got.Messages, all)
		}
	})
}
