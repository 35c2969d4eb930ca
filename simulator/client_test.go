package simulator_test

import (
	"context"
	"math"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/agent/stream/streamtest"
	"github.com/spate-load/spate/api/registry"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/simulator"
	"github.com/spate-load/spate/simulator/config"
	"github.com/spate-load/spate/workload"
)

// simulated asks a simulator for 7 tokens by an API.
func simulated(t *testing.T, api string, change func(*config.Config)) *stream.Observation {
	t.Helper()
	return simulatedAs(t, api, false, change)
}

// simulatedAs asks for a stream, or for an answer in one piece if whole.
func simulatedAs(t *testing.T, api string, whole bool, change func(*config.Config)) *stream.Observation {
	t.Helper()
	config := config.Default()
	config.Model.PrefillTokensPerSecond, config.Model.DecodeStep, config.Model.DecodeStepPerRequest = math.Inf(1), 0, 0
	change(&config)
	server, err := simulator.Start(config, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close(context.Background()) })
	c := streamtest.NewClient(t, stream.Config{Endpoints: server.URLs(), API: api, Prompts: "text", Model: "m",
		ExactOutput: true, Whole: whole})
	prompt := `"one two three"`
	if c.Form() == workload.Messages {
		prompt = `[{"role":"system","content":"one"},{"role":"user","content":"two three"}]`
	}
	var o stream.Observation
	c.Do(
		t.Context(),
		stream.Request{Body: c.AppendBody(nil, 7, func(dst []byte) []byte { return append(dst, prompt...) }),
			KeepAnswer: true},
		&o,
	)
	return &o
}

// shapes are ways to send the same answer.
var shapes = map[string]func(*config.Frames){
	"plain":        func(*config.Frames) {},
	"role at once": func(f *config.Frames) { f.Role = config.RoleAtOnce },
	"no role":      func(f *config.Frames) { f.Role = config.RoleNone },
	"reasoning":    func(f *config.Frames) { f.ReasoningTokens = 3 },
	"in one write": func(f *config.Frames) { f.Deliver = config.DeliverOneWrite },
	"finish frame": func(f *config.Frames) { f.FinishFrame = true },
}

// streaming returns the names of the APIs that have streams of their own. Those of package template are tested there.
func streaming() (names []string) {
	for _, a := range registry.All {
		if !a.NoOutput && a.Check == nil && !a.Unsimulated {
			names = append(names, a.Name)
		}
	}
	return names
}

// TestSimulatedShapes reads each shape in each API from the simulator, which was written independently of this client.
func TestSimulatedShapes(t *testing.T) {
	for _, api := range streaming() {
		for name, shape := range shapes {
			o := simulated(t, api, func(c *config.Config) { shape(&c.Frames) })
			if o.Err != nil || o.TokenFrames != 7 || o.OutputTokens != 7 || !o.Usage || o.InputTokens != 3 ||
				len(o.Answer) == 0 {
				t.Errorf("%s, %s: %d and %d tokens in %d frames, usage %v, answer %q, error %v", api, name, o.InputTokens,
					o.OutputTokens, o.TokenFrames, o.Usage, o.Answer, o.Err)
			}
		}
		several := simulated(t, api, func(c *config.Config) { c.Frames.TokensPerFrame = 3 })
		if frames := several.TokenFrames; several.Err != nil || frames != 3 || several.OutputTokens != 7 {
			t.Errorf("%s, several tokens: %d in %d frames, error %v", api, several.OutputTokens, frames, several.Err)
		}
	}
}

// TestSimulatedFaults checks each fault in each API.
func TestSimulatedFaults(t *testing.T) {
	faults := map[config.FaultKind]spatev1.ErrorClass{
		config.FaultTooManyRequests: spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
		config.FaultServerError:     spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
		config.FaultGarbage:         spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		config.FaultGarbageFrame:    spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		config.FaultErrorFrame:      spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR,
		config.FaultCut:             spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
		config.FaultReset:           spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
	}
	for _, api := range streaming() {
		for kind, want := range faults {
			o := simulated(t, api, func(c *config.Config) {
				c.Faults = []config.Fault{{Kind: kind, Probability: 1, AfterTokens: 3}}
			})
			if o.Err == nil || o.Err.Class != want {
				t.Errorf("%s, %s: %v, want %v", api, kind, o.Err, want)
			}
		}
		o := simulated(t, api, func(c *config.Config) {
			c.Faults = []config.Fault{{Kind: config.FaultJSONBody, Probability: 1}}
		})
		if o.Err != nil || !o.WholeAnswer || !o.Usage || o.OutputTokens != 7 ||
			len(o.Answer) == 0 {
			t.Errorf("%s, in one piece: whole %v, %d tokens, answer %q, error %v", api, o.WholeAnswer, o.OutputTokens,
				o.Answer, o.Err)
		}
	}
}

// TestSimulatedWholeAnswers asks for answers in one piece in each API, with and without faults.
func TestSimulatedWholeAnswers(t *testing.T) {
	faults := map[config.FaultKind]spatev1.ErrorClass{
		config.FaultServerError:  spatev1.ErrorClass_ERROR_CLASS_HTTP_STATUS,
		config.FaultGarbage:      spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		config.FaultGarbageFrame: spatev1.ErrorClass_ERROR_CLASS_BAD_FRAME,
		config.FaultErrorFrame:   spatev1.ErrorClass_ERROR_CLASS_STREAM_ERROR,
		config.FaultCut:          spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
		config.FaultReset:        spatev1.ErrorClass_ERROR_CLASS_CUT_STREAM,
	}
	for _, api := range streaming() {
		o := simulatedAs(t, api, true, func(*config.Config) {})
		if o.Err != nil || !o.WholeAnswer || o.Streamed() || !o.Usage || o.UncountedOutput ||
			o.OutputTokens != 7 || o.InputTokens != 3 ||
			len(o.Answer) == 0 {
			t.Errorf("%s: %+v", api, o)
		}
		for kind, want := range faults {
			o := simulatedAs(t, api, true, func(c *config.Config) {
				c.Faults = []config.Fault{{Kind: kind, Probability: 1, AfterTokens: 3}}
			})
			if o.Err == nil || o.Err.Class != want {
				t.Errorf("%s, %s: %v, want %v", api, kind, o.Err, want)
			}
		}
	}
}
