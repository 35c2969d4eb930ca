package simulator

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/simulator/api"
	"github.com/spate-load/spate/simulator/config"
)

// exactSteps returns a configuration whose decode steps take a time that is exact in the model.
func exactSteps() config.Config {
	c := fast()
	c.Model.DecodeStep = time.Millisecond
	c.Truth = config.Truth{Keep: true, Tokens: true}
	return c
}

// record sends a request of an id to an API for a number of tokens, and returns its record and its answer.
func record(t *testing.T, c config.Config, name, id string, tokens int) (Record, string) {
	t.Helper()
	p := start(t, c)
	body := strings.NewReplacer(`okens":3`, fmt.Sprintf(`okens":%d`, tokens), `,"ignore_eos":true`,
		"").Replace(asks[name].body)
	_, got := p.get(asks[name].path, id, body)
	p.stop()
	return p.Records()[0], got
}

// framesOf returns how many token frames an API sends for a number of tokens, withText of which have text.
func framesOf(name string, tokens, withText int) int {
	if name == "responses" || name == "anthropic" {
		return withText
	}
	return tokens
}

// Tokens without text take their time and count, and have a frame if the API has one for them.
func TestTokensWithoutText(t *testing.T) {
	for name := range asks {
		t.Run(name, func(t *testing.T) {
			c := exactSteps()
			c.TextlessShare = 0.5
			r, got := record(t, c, name, nameOf(t, c, `"max_tokens":10`, "--......--"), 10)
			if r.OutputTokens != 10 || len(r.Tokens) != framesOf(name, 10, 6) || r.FinishReason != api.FinishLength {
				t.Errorf("%d tokens in %d frames, finish %q", r.OutputTokens, len(r.Tokens), r.FinishReason)
			}
			if d := r.LastProduced.Sub(r.FirstProduced); d != 9*time.Millisecond {
				t.Errorf("decoding took %v", d)
			}
			if strings.Contains(got, " rises") || strings.Contains(got, " low") || !strings.Contains(got, " over") ||
				!strings.Contains(got, " across") {
				t.Errorf("the texts are not those of tokens 2 to 7: %s", got)
			}
			if first := r.Tokens[0].Sub(r.FirstProduced); framesOf(name, 10, 6) == 6 && first < 2*time.Millisecond {
				t.Errorf("the first frame came %v after the first token, before there was text", first)
			}
		})
	}
}

// An output that ends by itself ends with the end-of-sequence token or, as at OpenAI, with its last text.
func TestOutputLength(t *testing.T) {
	for name := range asks {
		for _, apart := range []bool{false, true} {
			t.Run(fmt.Sprint(name, "/apart=", apart), func(t *testing.T) {
				c := exactSteps()
				c.OutputLength.Mean, c.Frames.FinishFrame = 5, apart
				r, got := record(t, c, name, "r", 10)
				text := 4
				if apart {
					text = 5
				}
				frames := framesOf(name, 5, text)
				if r.OutputTokens != 5 || r.FinishReason != api.FinishStop || len(r.Tokens) != frames {
					t.Errorf("%d tokens in %d frames, finish %q", r.OutputTokens, len(r.Tokens), r.FinishReason)
				}
				if d := r.LastProduced.Sub(r.FirstProduced); d != 4*time.Millisecond {
					t.Errorf("decoding took %v", d)
				}
				if strings.Contains(got, " banks") != apart || !strings.Contains(got, " the") {
					t.Errorf("the text is not that of %d tokens: %s", text, got)
				}
				if r.Ended < r.LastProduced {
					t.Errorf("it ended %v before its last token", r.LastProduced.Sub(r.Ended))
				}
			})
		}
	}
}

// Hidden reasoning takes its time: the first frame comes with the first token of the answer.
func TestHiddenReasoning(t *testing.T) {
	for name := range asks {
		t.Run(name, func(t *testing.T) {
			c := exactSteps()
			c.Frames.ReasoningTokens, c.Frames.ReasoningField = 6, config.ReasoningHidden
			r, got := record(t, c, name, "r", 9)
			if r.OutputTokens != 9 || len(r.Tokens) != 3 {
				t.Errorf("%d tokens in %d frames", r.OutputTokens, len(r.Tokens))
			}
			if d := r.FirstToken.Sub(r.FirstProduced); d < 6*time.Millisecond {
				t.Errorf("the first frame came %v after the first token", d)
			}
			if strings.Contains(got, " water") || strings.Contains(got, " and") || !strings.Contains(got, " spreads") {
				t.Errorf("it shows what is hidden: %s", got)
			}
			reported := map[string]string{"responses": `"output_tokens_details":{"reasoning_tokens":6}`,
				"anthropic": `"output_tokens":9`, "sglang": `"completion_tokens":9`}
			if !strings.Contains(got, reported[name]) {
				t.Errorf("no %s in %s", reported[name], got)
			}
		})
	}
}

// An output that is delivered at the end comes in the right number of frames and writes, and no earlier.
func TestDeliveries(t *testing.T) {
	for deliver, want := range map[config.Delivery]struct{ frames, writes int }{
		config.DeliverAsProduced: {8, 8}, config.DeliverOneWrite: {8, 1}, config.DeliverOneFrame: {1, 1},
	} {
		for name := range asks {
			t.Run(string(deliver)+"/"+name, func(t *testing.T) {
				c := exactSteps()
				c.Frames.Deliver = deliver
				r, _ := record(t, c, name, "r", 8)
				writes := len(slices.Compact(slices.Clone(r.Tokens)))
				if r.OutputTokens != 8 || len(r.Tokens) != want.frames || writes != want.writes {
					t.Errorf("%d tokens in %d frames and %d writes, want %+v", r.OutputTokens, len(r.Tokens),
						writes, want)
				}
				if d := r.FirstToken.Sub(r.FirstProduced); deliver != config.DeliverAsProduced &&
					d < 6*time.Millisecond {
					t.Errorf("the first frame came %v after the first token: nothing was held back", d)
				}
			})
		}
	}
}

func TestDialect(t *testing.T) {
	const chat = `{"model":"m","messages":[{"content":"hi"}],"max_tokens":2,"stream":true`
	for name, c := range map[string]struct {
		dialect    config.Dialect
		path, body string
		status     int
		says       string
	}{
		"owner":       {config.Dialect{OwnedBy: "nvidia"}, "/v1/models", "", 200, `"owned_by":"nvidia"`},
		"a tokenizer": {config.Dialect{}, "/tokenize", `{"prompt":"a"}`, 200, `"count":1`},
		"ignore_eos refused": {config.Dialect{ExactOutput: config.Refused}, chatPath, chat + `,"ignore_eos":true}`, 400,
			`supplied: ignore_eos","type":"invalid_request_error","param":"ignore_eos"`},
		"min_tokens refused": {config.Dialect{ExactOutput: config.Refused}, chatPath, chat + `,"min_tokens":2}`, 400,
			`supplied: min_tokens`},
		"neither is there to refuse": {config.Dialect{ExactOutput: config.Refused}, chatPath, chat + `}`,
			200, `[DONE]`},
		"unknown options let through": {config.Dialect{}, chatPath, chat + `,"stream_options":{"x":1}}`, 200, `[DONE]`},
		"options that are a number": {config.Dialect{}, chatPath, chat + `,"stream_options":7}`, 400,
			`stream_options is not an object`},
		"running usage": {config.Dialect{}, chatPath,
			chat + `,"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`, 200,
			`"finish_reason":null}],"usage":`},
		"tools refused": {config.Dialect{Tools: config.Refused}, chatPath, chat + `,"tools":[{"function":{"name":"f"}}]}`,
			400, `supplied: tools`},
		"a form refused": {config.Dialect{Tools: config.Refused}, completionsPath,
			`{"model":"m","prompt":"a","guided_json":{"type":"integer"}}`, 400, `supplied: response_format`},
		"a forced tool that is not defined": {config.Dialect{}, chatPath,
			chat + `,"tools":[{"function":{"name":"f"}}],"tool_choice":{"type":"function","function":{"name":"g"}}}`,
			400, `tools does not have: g`},
		"a forced call": {config.Dialect{}, chatPath,
			chat + `,"tools":[{"function":{"name":"f"}}],"tool_choice":"required"}`, 200,
			`"function":{"name":"f","arguments":"{}"}}]},"logprobs":null,"finish_reason":null}`},
		"an ended call": {config.Dialect{}, chatPath,
			chat + `,"tools":[{"function":{"name":"f"}}],"tool_choice":"required","max_completion_tokens":9}`, 200,
			`"finish_reason":"tool_calls"`},
		"no forced call": {config.Dialect{}, chatPath,
			chat + `,"tools":[{"function":{"name":"f"}}],"tool_choice":"auto"}`, 200, `"content":" rises"`},
		"Anthropic's form": {config.Dialect{}, "/v1/messages",
			`{"model":"m","messages":[{"role":"user","content":"hi"}],"max_tokens":9,"output_config":{"format":{"schema":{"type":"boolean"}}}}`,
			200, `true`},
		"a call of responses in one piece": {config.Dialect{}, "/v1/responses",
			`{"model":"m","input":"hi","tools":[{"type":"function","name":"f"}],"tool_choice":"required"}`, 200,
			`"output":[{"id":"fc_r","type":"function_call","call_id":"call_0","name":"f","status":"completed","arguments":"{}"}]`},
		"a call of responses": {config.Dialect{}, "/v1/responses",
			`{"model":"m","input":"hi","stream":true,"tools":[{"type":"function","name":"f","parameters":{"const":"xyz"}}],` +
				`"tool_choice":{"type":"function","name":"f"}}`, 200, calledInEvents},
		"a form of responses": {config.Dialect{}, "/v1/responses",
			`{"model":"m","input":"hi","text":{"format":{"type":"json_schema","name":"x","schema":{"type":"boolean"}}}}`, 200,
			`"text":"true"`},
		"an answer in a form": {config.Dialect{}, completionsPath,
			`{"model":"m","prompt":"a","max_tokens":40,"guided_json":{"properties":{"a\"b":{"type":["number","null"]},
			"c":{"type":"array","minItems":2,"items":{"const":true}},"d":{"type":"null"}}}}`, 200,
			`"text":"{\"a\\\"b\":0,\"c\":[true,true],\"d\":null}"`},
		"any object": {config.Dialect{}, chatPath,
			`{"model":"m","messages":[{"content":"hi"}],"response_format":{"type":"json_object"}}`, 200, `"content":"{}"`},
		"a form ignored": {config.Dialect{Tools: config.Ignored}, completionsPath,
			`{"model":"m","prompt":"a","max_tokens":1,"guided_json":{"type":"integer"}}`, 200, `"text":" water"`},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := fast()
			cfg.Dialect = c.dialect
			status, got := start(t, cfg).get(c.path, "r", c.body)
			if status != c.status || !strings.Contains(got, c.says) {
				t.Errorf("%d %s, want %d with %s", status, got, c.status, c.says)
			}
		})
	}
}

// calledInEvents is a function call of two tokens in a stream of the responses API, up to the response's last event.
const calledInEvents = `event: response.output_item.added
data: {"type":"response.output_item.added","sequence_number":2,"output_index":0,"item":{"id":"fc_r","type":"function_call","call_id":"call_0","name":"f","status":"in_progress","arguments":""}}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":3,"item_id":"fc_r","output_index":0,"delta":"\"xyz"}

event: response.function_call_arguments.delta
data: {"type":"response.function_call_arguments.delta","sequence_number":4,"item_id":"fc_r","output_index":0,"delta":"\""}

event: response.function_call_arguments.done
data: {"type":"response.function_call_arguments.done","sequence_number":5,"item_id":"fc_r","output_index":0,"name":"f","arguments":"\"xyz\""}

event: response.output_item.done
data: {"type":"response.output_item.done","sequence_number":6,"output_index":0,"item":{"id":"fc_r","type":"function_call","call_id":"call_0","name":"f","status":"completed","arguments":"\"xyz\""}}

event: response.completed
`

// Answers are wrong with the probability that is set, at the endpoint and above the load that are set, and else the
// same for each request.
func TestWrongAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		endpoint int
		change   func(*config.Config)
		wrong    int // of 20 answers; 1: some
	}{
		"none":                {0, func(*config.Config) {}, 0},
		"all":                 {0, func(c *config.Config) { c.WrongShare = 1 }, 20},
		"some":                {0, func(c *config.Config) { c.WrongShare = 0.5 }, 1},
		"of this endpoint":    {1, func(c *config.Config) { c.WrongShare, c.WrongEndpoint = 1, 2 }, 20},
		"of another endpoint": {0, func(c *config.Config) { c.WrongShare, c.WrongEndpoint = 1, 2 }, 0},
		"under more load":     {0, func(c *config.Config) { c.WrongShare, c.WrongAbove = 1, 1 }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			config := fast()
			config.Endpoints = 2
			c.change(&config)
			p, wrong := start(t, config), 0
			for i := range 20 {
				response, err := p.ask(t.Context(), c.endpoint, completionsPath, fmt.Sprint("r", i), fourTokens)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if texts := strings.Count(string(body), " rises"); texts == 0 {
					wrong++
				}
			}
			if wrong != c.wrong && (c.wrong != 1 || wrong < 5 || wrong > 15) {
				t.Errorf("%d of 20 answers are wrong, want %d", wrong, c.wrong)
			}
		})
	}
}
