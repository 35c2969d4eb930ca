package ready

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
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
		{"gemini", "spate", false, "the API has no fields that ask for outputs of exactly that length"},
		{"bedrock", "x", false, "the API has no fields that ask for outputs of exactly that length"},
	} {
		target := &spatev1.Target{Api: tt.api, Model: "m"}
		f, err := found(t, &fakeServer{models: listing("m", tt.owner, 0)}, stageOf(target))
		notes := strings.Join(f.GetPreparation().GetNotes(), " ")
		if err != nil || f.GetPreparation().GetExactOutput() != tt.exact || !strings.Contains(notes, tt.note) ||
			strings.Contains(notes, "Outputs") != (tt.note != "") {
			t.Errorf("%s by %s: %v, %q, %v", tt.api, tt.owner, f.GetPreparation().GetExactOutput(), notes, err)
		}
	}
}

// TestEndOfOutputsByTheBody checks that a plan's own field decides, wherever an API has it.
func TestEndOfOutputsByTheBody(t *testing.T) {
	for _, a := range []*api.API{&registry.SGLang, registry.TGI} {
		object, name := a.Options, a.IgnoreEOS
		for _, asked := range []bool{false, true} {
			target := &spatev1.Target{Api: a.Name, Model: "m", Body: fields(t, object, map[string]any{name: asked})}
			f, err := found(t, &fakeServer{models: listing("m", "spate", 0)}, stageOf(target))
			said := strings.Contains(strings.Join(f.GetPreparation().GetNotes(), " "), "body sets "+object+"."+
				name+": false")
			if err != nil || f.GetPreparation().GetExactOutput() != asked || said == asked {
				t.Errorf("%s, %v: %v, %v", a.Name, asked, f.GetPreparation(), err)
			}
		}
	}
}

// TestSimulatedAPIs prepares each API against the built-in simulator, with each way to count.
func TestSimulatedAPIs(t *testing.T) {
	server := simulated(t)
	for _, a := range registry.All {
		if a.Check != nil || a.Unsimulated {
			continue // a plan describes it
		}
		for _, tokenizer := range []string{"words", "server", "usage"} {
			prompts := ""
			if !a.Chat() {
				prompts = "text"
			}
			client, err := stream.New(stream.Config{Endpoints: server.URLs(), API: a.Name, Prompts: prompts,
				Model: "m"})
			if err != nil {
				t.Fatal(err)
			}
			f, err := Find(t.Context(), client,
				stageOf(&spatev1.Target{Api: a.Name, Prompts: prompts, Tokenizer: tokenizer, Model: "m"}), nil)
			client.Close()
			untold := a.Name == "tei" && tokenizer == "usage" // TEI's answers have none
			if a.Uncounted && tokenizer != "words" || untold {
				if err == nil || !strings.Contains(err.Error(), "tokenizer "+tokenizer) {
					t.Errorf("%s, %s: %v", a.Name, tokenizer, err)
				}
				continue
			}
			template := uint32(0)
			if client.Form() == workload.Messages && tokenizer != "words" {
				template = 9
			}
			lengths := tokenizer
			if a.Cuts {
				lengths = "words"
			}
			exact := len(a.LengthFields()) > 0 // otherwise there is a note
			if err != nil || templateOf(f) != template || f.GetPreparation().GetLengths() != lengths ||
				f.GetPreparation().GetExactOutput() != exact || (len(f.GetPreparation().GetNotes()) > 0) == exact {
				t.Errorf("%s, %s: %v, %v", a.Name, tokenizer, f.GetPreparation(), err)
			}
		}
	}
}
