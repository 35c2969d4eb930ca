package ready

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spate-load/spate/agent/stream"
	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
)

// checkerOf returns the AnswerChecker of an API for a body.
func checkerOf(t *testing.T, name, body string) (*AnswerChecker, *api.API) {
	t.Helper()
	a, known := registry.Find(name)
	if !known {
		t.Fatalf("no API %s", name)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(body), &fields); err != nil {
		t.Fatal(err)
	}
	c, err := NewAnswerChecker(a, fields)
	if err != nil {
		t.Fatal(err)
	}
	return c, a
}

// calls are answers with two calls: weather({"city":"Oslo"}) in two pieces, and time({}).
var calls = []struct {
	name, api, body string
	events          []string
}{
	{"chat", "chat", `{"tools":[{"type":"function","function":{"name":"weather"}},{"function":{"name":"time"}}]}`, []string{
		`{"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"weather","arguments":""}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"2","type":"function","function":{"name":"time","arguments":"{"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\"}"}},{"index":1,"function":{"arguments":"}"}}]}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`,
	}},
	{"chat without indices", "chat", `{"tools":[{"function":{"name":"weather"}},{"function":{"name":"time"}}]}`, []string{
		`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"weather","arguments":"{\"city\":"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"\"Oslo\"}"}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"function":{"name":"time","arguments":"{}"}}]}}]}`,
	}},
	{"chat in one piece", "chat", `{"tools":[{"function":{"name":"weather"}},{"function":{"name":"time"}}]}`, []string{
		`{"choices":[{"index":0,"message":{"content":null,"tool_calls":[
			{"id":"1","function":{"name":"weather","arguments":"{\"city\":\"Oslo\"}"}},
			{"id":"2","function":{"name":"time","arguments":{}}}]},"finish_reason":"tool_calls"}]}`,
	}},
	{"responses", "responses", `{"tools":[{"type":"function","name":"weather"},{"type":"function","name":"time"}]}`, []string{
		`{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning"}}`,
		`{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"weather","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"city\":"}`,
		`{"type":"response.function_call_arguments.delta","output_index":1,"delta":"\"Oslo\"}"}`,
		`{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","name":"time","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{}"}`,
		`{"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","name":"time","arguments":"{}"}]}}`,
	}},
	{"responses in one piece", "responses", `{"tools":[{"name":"weather"},{"name":"time"}]}`, []string{
		`{"object":"response","status":"completed","output":[{"type":"function_call","name":"weather","arguments":"{\"city\":\"Oslo\"}"},
			{"type":"message","content":[]},{"type":"function_call","name":"time","arguments":"{}"}]}`,
	}},
	{"anthropic", "anthropic", `{"tools":[{"name":"weather","input_schema":{}},{"name":"time","input_schema":{}}]}`, []string{
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"So"}}`,
		`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"1","name":"weather","input":{}}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"city\":"}}`,
		`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"\"Oslo\"}"}}`,
		`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"2","name":"time","input":{}}}`,
		`{"type":"message_delta","delta":{"stop_reason":"tool_use"}}`,
	}},
	{"anthropic in one piece", "anthropic", `{"tools":[{"name":"weather"},{"name":"time"}]}`, []string{
		`{"type":"message","content":[{"type":"text","text":"So"},{"type":"tool_use","name":"weather","input":{"city":"Oslo"}},
			{"type":"tool_use","name":"time","input":{}}],"stop_reason":"tool_use"}`,
	}},
	{"gemini", "gemini", `{"tools":[{"functionDeclarations":[{"name":"weather"}]},{"functionDeclarations":[{"name":"time"}]}]}`, []string{
		`{"candidates":[{"content":{"parts":[{"text":"So"},{"functionCall":{"name":"weather","args":{"city":"Oslo"}}}]}}]}`,
		`{"candidates":[{"content":{"parts":[{"functionCall":{"name":"time"}}]},"finishReason":"STOP"}]}`,
	}},
	{"bedrock in one piece", "bedrock", `{"toolConfig":{"tools":[{"toolSpec":{"name":"weather"}},{"toolSpec":{"name":"time"}}]}}`, []string{
		`{"output":{"message":{"content":[{"toolUse":{"name":"weather","input":{"city":"Oslo"}}},{"toolUse":{"name":"time","input":{}}}]}},"stopReason":"tool_use"}`,
	}},
}

// observe parses events as a client does.
func observe(t *testing.T, a *api.API, events ...api.Event) *stream.Observation {
	t.Helper()
	o := &stream.Observation{}
	for _, e := range events {
		var f api.Frame
		if err := a.Parse(e, &f); err != nil {
			t.Fatal(err)
		}
		o.Calls = append(o.Calls, f.Calls...)
		if len(f.Calls) > 0 && !f.Token && !strings.Contains(string(e.Data), `""`) {
			t.Errorf("%s: a piece of a call that does not count as a token", e.Data)
		}
	}
	return o
}

func TestCallsAreCountedInAllAPIs(t *testing.T) {
	for _, tt := range calls {
		t.Run(tt.name, func(t *testing.T) {
			c, a := checkerOf(t, tt.api, tt.body)
			var events []api.Event
			for _, e := range tt.events {
				events = append(events, api.Event{Data: []byte(e)})
			}
			checkCalls(t, c, observe(t, a, events...))
		})
	}
}

// checkCalls expects the two calls.
func checkCalls(t *testing.T, c *AnswerChecker, o *stream.Observation) {
	t.Helper()
	if got, want := c.Check(c.Asked(nil), o), (Outcome{Tools: true, Calls: 2, ValidCalls: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	got := c.callsOf(o.Calls)
	if got[0].name != "weather" || strings.ReplaceAll(got[0].arguments, " ", "") != `{"city":"Oslo"}` || got[1].name != "time" {
		t.Errorf("calls %+v, %+v", *got[0], *got[1])
	}
}

func TestCallsInAWSEvents(t *testing.T) {
	c, a := checkerOf(t, "bedrock", `{"toolConfig":{"tools":[{"toolSpec":{"name":"weather"}},{"toolSpec":{"name":"time"}}]}}`)
	event := func(name, data string) api.Event { return api.Event{Name: []byte(name), Data: []byte(data)} }
	checkCalls(t, c, observe(t, a,
		event("contentBlockStart", `{"contentBlockIndex":0,"start":{"toolUse":{"name":"weather","toolUseId":"1"}}}`),
		event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"city\":"}}}`),
		event("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"toolUse":{"input":"\"Oslo\"}"}}}`),
		event("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"name":"time","toolUseId":"2"}}}`),
		event("messageStop", `{"stopReason":"tool_use"}`)))
}

func TestCallsThatAreNotValid(t *testing.T) {
	c, _ := checkerOf(t, "chat", `{"tools":[{"function":{"name":"weather"}}]}`)
	for name, pieces := range map[string]string{
		"cut by the length":  `[{"index":0,"function":{"name":"weather","arguments":"{\"city\":"}}]`,
		"cut after the name": `[{"index":0,"function":{"name":"weather","arguments":""}}]`,
		"not an object":      `[{"index":0,"function":{"name":"weather","arguments":"7"}}]`,
		"unknown tool":       `[{"index":0,"function":{"name":"stocks","arguments":"{}"}}]`,
		"no name":            `[{"index":0,"function":{"arguments":"{}"}}]`,
		"not a function":     `[{"index":0,"function":7}]`,
		"not an object's":    `[7]`,
	} {
		got := c.Check(c.Asked(nil), &stream.Observation{Calls: []byte(pieces)})
		if want := (Outcome{Tools: true, Calls: 1}); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

func TestFormsOfAnswers(t *testing.T) {
	const schema = `{"type":"object","required":["city"],"properties":{"city":{"type":"string"}}}`
	for name, tt := range map[string]struct{ api, body, valid, invalid string }{
		"response_format":    {"chat", `{"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":` + schema + `}}}`, `{"city":"Oslo"}`, `{"city":7}`},
		"structured_outputs": {"completions", `{"structured_outputs":{"json":` + schema + `}}`, ` {"city":"Oslo"} `, `{}`},
		"guided_json, text":  {"chat", `{"guided_json":"{\"type\":\"array\"}"}`, `[]`, `{}`},
		"any JSON":           {"chat", `{"response_format":{"type":"json_object"}}`, `{"a":[1]}`, `{"a":[1`},
		"regex":              {"chat", `{"structured_outputs":{"regex":"a+|b"}}`, `aaa`, `aab`},
		"choice":             {"chat", `{"guided_choice":["yes","no"]}`, `no`, `n`},
		"responses":          {"responses", `{"text":{"format":{"type":"json_schema","schema":` + schema + `}}}`, `{"city":"Oslo"}`, `{"city":"Os`},
		"anthropic":          {"anthropic", `{"output_config":{"format":{"type":"json_schema","schema":` + schema + `}}}`, `{"city":"Oslo"}`, `7`},
		"gemini":             {"gemini", `{"generationConfig":{"responseJsonSchema":` + schema + `}}`, `{"city":"Oslo"}`, `[]`},
		"gemini, any JSON":   {"gemini", `{"generationConfig":{"responseMimeType":"application/json"}}`, `7`, `so`},
		"sglang":             {"sglang", `{"sampling_params":{"json_schema":"{\"type\":\"integer\"}"}}`, `7`, `7.5`},
		"tgi":                {"tgi", `{"parameters":{"grammar":{"type":"json","value":` + schema + `}}}`, `{"city":"Oslo"}`, `null`},
		"line breaks":        {"chat", `{"guided_choice":["a\nb"]}`, "a\nb", "ab"},
	} {
		c, _ := checkerOf(t, tt.api, tt.body)
		for text, valid := range map[string]bool{tt.valid: true, tt.invalid: false} {
			quoted, err := json.Marshal(text)
			if err != nil {
				t.Fatal(err)
			}
			got := c.Check(c.Asked(nil), &stream.Observation{Answer: quoted[1 : len(quoted)-1]})
			if want := (Outcome{Checked: true, ValidAnswer: valid}); got != want {
				t.Errorf("%s: %s: %+v, want %+v", name, text, got, want)
			}
		}
	}
}

func TestWhatCannotBeCheckedIsNot(t *testing.T) {
	for name, body := range map[string]string{
		"nothing asked":    `{"temperature":0}`,
		"text":             `{"response_format":{"type":"text"}}`,
		"grammar":          `{"structured_outputs":{"grammar":"root ::= \"a\""}}`,
		"another document": `{"guided_json":{"$ref":"file:///etc/hostname"}}`,
		"not a schema":     `{"guided_json":{"type":"thing"}}`,
		"not a regex":      `{"guided_regex":"(?<=a)b"}`,
	} {
		c, _ := checkerOf(t, "chat", body)
		a := c.Asked(nil)
		if got := c.Check(a, &stream.Observation{Answer: []byte("7")}); a.Form() || got != (Outcome{}) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestRowsAddToTheBody(t *testing.T) {
	c, _ := checkerOf(t, "chat", `{"tools":[{"function":{"name":"a"}}],"guided_choice":["yes"]}`)
	row := c.Asked([]byte(`"tools":[{"function":{"name":"b"}}],"guided_json":{"type":"object"}`))
	o := &stream.Observation{Calls: []byte(`[{"index":0,"function":{"name":"a","arguments":"{}"}},{"index":1,"function":{"name":"b","arguments":"{}"}}]`)}
	if got := c.Check(row, o); got != (Outcome{Tools: true, Calls: 2, ValidCalls: 2}) {
		t.Errorf("%+v", got)
	}
	if got := c.Check(row, &stream.Observation{Answer: []byte(`{}`)}); !got.ValidAnswer {
		t.Errorf("the row's form does not count: %+v", got)
	}
	if c.Asked([]byte(`"tools":[{"function":{"name":"b"}}],"guided_json":{"type":"object"}`)) != row {
		t.Error("the fields of a row are read again for each request")
	}
}

func TestFailedRequestsHaveNoOutcome(t *testing.T) {
	c, _ := checkerOf(t, "chat", `{"tools":[{"function":{"name":"a"}}]}`)
	for _, o := range []*stream.Observation{{Err: &stream.Error{}}, {Cancelled: true}} {
		if got := c.Check(c.Asked(nil), o); got != (Outcome{}) {
			t.Errorf("%+v", got)
		}
	}
}
