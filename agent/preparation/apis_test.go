package preparation

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/workload"
)

// TestExactOutputByAPI checks which servers are asked for outputs of exact length.
func TestExactOutputByAPI(t *testing.T) {
	for _, tt := range []struct {
		api, owner string
		exact      bool
		note       string
	}{
		{"responses", "vllm", true, ""},
		{"responses", "sglang", false, "not known to accept ignore_eos. If"},
		{"responses", "spate", true, ""},
		{"sglang", "x", true, ""},
		{"triton", "x", true, ""},
		{"tgi", "x", false, "not known to accept ignore_eos_token. If"},
		{"tgi", "spate", true, ""},
		{"anthropic", "vllm", false, "not known to accept ignore_eos and min_tokens. If"},
		{"anthropic", "spate", true, ""},
	} {
		target := &spatev1.Target{Api: tt.api, Model: "m"}
		f, err := found(t, &fakeServer{models: listing("m", tt.owner, 0)}, stageOf(target))
		notes := strings.Join(f.Preparation.GetNotes(), " ")
		if err != nil || f.Preparation.GetExactOutput() != tt.exact || !strings.Contains(notes, tt.note) ||
			strings.Contains(notes, "Outputs") != (tt.note != "") {
			t.Errorf("%s by %s: %v, %q, %v", tt.api, tt.owner, f.Preparation.GetExactOutput(), notes, err)
		}
	}
}

// TestEndOfOutputsByTheBody checks that a plan's own field decides, wherever an API has it.
func TestEndOfOutputsByTheBody(t *testing.T) {
	for api, object := range map[string]string{"sglang": "sampling_params", "tgi": "parameters"} {
		_, name := eosField(api)
		for _, asked := range []bool{false, true} {
			target := &spatev1.Target{Api: api, Model: "m", Body: fields(t, object, map[string]any{name: asked})}
			f, err := found(t, &fakeServer{models: listing("m", "spate", 0)}, stageOf(target))
			said := strings.Contains(strings.Join(f.Preparation.GetNotes(), " "), "body sets "+object+"."+
				name+": false")
			if err != nil || f.Preparation.GetExactOutput() != asked || said == asked {
				t.Errorf("%s, %v: %v, %v", api, asked, f.Preparation, err)
			}
		}
	}
}

// TestSimulatedAPIs prepares each API against the built-in simulator, with each way to count.
func TestSimulatedAPIs(t *testing.T) {
	config := simulator.Default()
	config.ChatTemplateTokens = 9
	ep, err := simulator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer ep.Close()
	server := httptest.NewServer(ep)
	defer server.Close()
	for _, api := range []string{"chat", "completions", "responses", "sglang", "tgi", "triton", "anthropic"} {
		for _, tokenizer := range []string{"words", "server", "usage"} {
			prompts := ""
			if api == "completions" || api == "sglang" {
				prompts = "text"
			}
			client, err := stream.New(stream.Config{Endpoints: []string{server.URL}, API: api, Prompts: prompts,
				Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			f, err := Find(t.Context(), client,
				stageOf(&spatev1.Target{Api: api, Prompts: prompts, Tokenizer: tokenizer, Model: "m"}), nil)
			client.Close()
			if api == "triton" && tokenizer != "words" {
				if err == nil || !strings.Contains(err.Error(), "tokenizer "+tokenizer) {
					t.Errorf("%s, %s: %v", api, tokenizer, err)
				}
				continue
			}
			template := uint32(0)
			if client.Form() == workload.Messages && tokenizer != "words" {
				template = 9
			}
			if err != nil || f.Template != template || f.Preparation.GetLengths() != tokenizer ||
				!f.Preparation.GetExactOutput() || len(f.Preparation.GetNotes()) > 0 {
				t.Errorf("%s, %s: %v, %v", api, tokenizer, f.Preparation, err)
			}
		}
	}
}
