package stream

import (
	"math"
	"net/http/httptest"
	"testing"

	"github.com/spate-load/spate/api/registry"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/workload"
)

// simulated asks a simulator for 7 tokens by an API.
func simulated(t *testing.T, api string, change func(*simulator.Config)) *Observation {
	t.Helper()
	config := simulator.Default()
	config.Model.PrefillTokensPerSecond, config.Model.DecodeStep, config.Model.DecodeStepPerRequest = math.Inf(1), 0, 0
	change(&config)
	ep, err := simulator.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ep.Close() })
	server := httptest.NewServer(ep)
	t.Cleanup(server.Close)
	c := newTestClient(t, Config{Endpoints: []string{server.URL}, API: api, Prompts: "text", Model: "m",
		ExactOutput: true})
	prompt := `"one two three"`
	if c.Form() == workload.Messages {
		prompt = `[{"role":"system","content":"one"},{"role":"user","content":"two three"}]`
	}
	var o Observation
	c.Do(t.Context(), Request{Body: c.AppendBody(nil, 7, func(dst []byte) []byte { return append(dst, prompt...) }),
		KeepAnswer: true}, &o)
	return &o
}

// shapes are ways to send the same answer.
var shapes = map[string]func(*simulator.Frames){
	"plain":         func(*simulator.Frames) {},
	"role at once":  func(f *simulator.Frames) { f.Role = simulator.RoleAtOnce },
	"no role":       func(f *simulator.Frames) { f.Role = simulator.RoleNone },
	"reasoning":     func(f *simulator.Frames) { f.ReasoningTokens = 3 },
	"in one write":  func(f *simulator.Frames) { f.FramesPerWrite = 100 },
	"split":         func(f *simulator.Frames) { f.SplitBytes = 3 },
	"comments":      func(f *simulator.Frames) { f.Comments = true },
	"trailers":      func(f *simulator.Frames) { f.Trailers = true },
	"running usage": func(f *simulator.Frames) { f.RunningUsage = true },
	"finish frame":  func(f *simulator.Frames) { f.FinishFrame = true },
	"CRLF":          func(f *simulator.Frames) { f.CRLF = true },
}

// TestSimulatedShapes reads each shape in each API from the simulator, which was written independently of this client.
func TestSimulatedShapes(t *testing.T) {
	for _, api := range registry.Names() {
		for name, shape := range shapes {
			o := simulated(t, api, func(c *simulator.Config) { shape(&c.Frames) })
			if o.Err != nil || o.TokenFrames != 7 || o.OutputTokens != 7 || o.Usage != (api != "triton") ||
				len(o.Answer) == 0 {
				t.Errorf("%s, %s: %d tokens in %d frames, usage %v, answer %q, error %v", api, name, o.OutputTokens,
					o.TokenFrames, o.Usage, o.Answer, o.Err)
			}
			if o.Usage && o.InputTokens != 3 {
				t.Errorf("%s, %s: %d prompt tokens", api, name, o.InputTokens)
			}
		}
		o := simulated(t, api, func(c *simulator.Config) { c.Frames.NoUsage = true })
		if o.Err != nil || o.Usage || o.OutputTokens != 7 {
			t.Errorf("%s, no usage: %d tokens, usage %v, error %v", api, o.OutputTokens, o.Usage, o.Err)
		}
		several := simulated(t, api, func(c *simulator.Config) { c.Frames.TokensPerFrame = 3 })
		if frames := several.TokenFrames; several.Err != nil || frames != 3 && api != "tgi" || several.Usage &&
			several.OutputTokens != 7 {
			t.Errorf("%s, several tokens: %d in %d frames, error %v", api, several.OutputTokens, frames, several.Err)
		}
	}
}

// TestSimulatedFaults checks each fault in each API.
func TestSimulatedFaults(t *testing.T) {
	faults := map[simulator.FaultKind]spatev1.ErrorClass{
		simulator.FaultTooManyRequests: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
		simulator.FaultServerError:     spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
		simulator.FaultGarbage:         spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		simulator.FaultGarbageFrame:    spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		simulator.FaultErrorFrame:      spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR,
		simulator.FaultCut:             spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
		simulator.FaultReset:           spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
		simulator.FaultGzip:            spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
	}
	for _, api := range registry.Names() {
		for kind, want := range faults {
			o := simulated(t, api, func(c *simulator.Config) {
				c.Faults = []simulator.Fault{{Kind: kind, Probability: 1, AfterTokens: 3}}
			})
			if o.Err == nil || o.Err.Class != want {
				t.Errorf("%s, %s: %v, want %v", api, kind, o.Err, want)
			}
		}
		o := simulated(t, api, func(c *simulator.Config) {
			c.Faults = []simulator.Fault{{Kind: simulator.FaultJSONBody, Probability: 1}}
		})
		if o.Err != nil || !o.WholeAnswer || o.Usage != (api != "triton") || o.Usage && o.OutputTokens != 7 ||
			len(o.Answer) == 0 {
			t.Errorf("%s, in one piece: whole %v, %d tokens, answer %q, error %v", api, o.WholeAnswer, o.OutputTokens,
				o.Answer, o.Err)
		}
	}
}
