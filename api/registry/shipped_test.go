package registry_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
)

// answers are the answers of a server as its project documents them
// (https://huggingface.co/docs/text-generation-inference, its OpenAPI document; Triton's
// protocol/extension_generate.md, the ensemble of TensorRT-LLM's backend).
type answers struct {
	stream, whole, refusal string
	status                 int    // of the refusal
	prompt                 string // field of the prompt
}

var tgi = map[string]answers{
	"/generate_stream": {
		stream: `data:{"index":1,"token":{"id":11070,"text":" Deep","logprob":-0.7,"special":false},"generated_text":null,"details":null}

data:{"index":2,"token":{"id":6832,"text":" learning","logprob":-0.1,"special":false},"generated_text":null,"details":null}

data:{"index":3,"token":{"id":2,"text":"</s>","logprob":-0.2,"special":true},"generated_text":" Deep learning","details":{"finish_reason":"eos_token","generated_tokens":3,"seed":null,"input_length":4}}

`},
	"/generate": {whole: `{"generated_text":" Deep learning","details":{"finish_reason":"eos_token","generated_tokens":3,"seed":42,"input_length":4,"prefill":[],"tokens":[{"id":11070,"text":" Deep","logprob":-0.7,"special":false}]}}`},
	"":          {refusal: `{"error":"Model is overloaded","error_type":"overloaded"}`, status: 429, prompt: "inputs"},
}

var triton = map[string]answers{
	"/v2/models/ensemble/generate_stream": {
		stream: `data: {"context_logits":0.0,"cum_log_probs":0.0,"generation_logits":0.0,"model_name":"ensemble","model_version":"1","output_log_probs":[0.0],"sequence_end":false,"sequence_id":0,"sequence_start":false,"text_output":" Deep"}

data: {"context_logits":0.0,"cum_log_probs":0.0,"generation_logits":0.0,"model_name":"ensemble","model_version":"1","output_log_probs":[0.0,0.0],"sequence_end":false,"sequence_id":0,"sequence_start":false,"text_output":" learning"}

`},
	"/v2/models/ensemble/generate": {whole: `{"model_name":"ensemble","model_version":"1","sequence_end":false,"sequence_id":0,"sequence_start":false,"text_output":" Deep learning"}`},
	"":                             {refusal: `{"error":"failed to parse the request"}`, status: 400, prompt: "text_input"},
}

// seen is what an observation has of an answer.
type seen struct {
	Text, Finish, Err     string
	Frames, Input, Output uint64
	Usage, Uncounted      bool
}

// The definitions read what the servers answer: a stream, an answer in one piece, and a refusal.
func TestShippedAPIs(t *testing.T) {
	for name, c := range map[string]struct {
		server                 map[string]answers
		stream, whole, refused seen
	}{
		"tgi": {
			tgi,
			seen{Text: " Deep learning", Finish: "eos_token", Frames: 3, Input: 4, Output: 3, Usage: true},
			seen{Text: " Deep learning", Finish: "eos_token", Frames: 1, Input: 4, Output: 3, Usage: true},
			seen{Err: "429 Too Many Requests: Model is overloaded"},
		},
		"triton": {
			triton,
			seen{Text: " Deep learning", Frames: 2, Output: 2},
			seen{Text: " Deep learning", Frames: 1, Uncounted: true},
			seen{Err: "400 Bad Request: failed to parse the request"},
		},
	} {
		s := httptest.NewServer(serving(c.server))
		t.Cleanup(s.Close)
		for _, want := range []seen{c.stream, c.whole, c.refused} {
			client := streamtest.NewClient(t, stream.Config{Endpoints: []string{s.URL}, API: name, Model: "ensemble",
				Whole: want == c.whole})
			prompt := `"what"`
			if want == c.refused {
				prompt = `"what else"`
			}
			var o stream.Observation
			client.Do(t.Context(), stream.Request{KeepAnswer: true, Body: client.AppendBody(nil, 8,
				func(dst []byte) []byte { return append(dst, prompt...) })}, &o)
			got := seen{Text: string(o.Answer), Finish: o.FinishReason, Frames: o.TokenFrames, Input: o.InputTokens,
				Output: o.OutputTokens, Usage: o.Usage, Uncounted: o.UncountedOutput}
			if o.Err != nil {
				got = seen{Err: o.Err.Message}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

// serving answers requests whose prompt is "what", and refuses all others.
func serving(all map[string]answers) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		a, known := all[r.URL.Path]
		switch err := json.NewDecoder(r.Body).Decode(&body); {
		case err != nil || !known || body[all[""].prompt] != "what":
			w.WriteHeader(all[""].status)
			_, _ = io.WriteString(w, all[""].refusal)
		case a.stream != "":
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, a.stream)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, a.whole)
		}
	}
}
