package defaults

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/api/registry"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// asking is a workload with two tools, one in each form, and the form of an answer.
const asking = `{"tools": {"definitions": [
	{"type": "function", "function": {"name": "weather", "description": "now", "parameters": {"type": "object"}}},
	{"name": "time", "strict": true}], "choice": "CHOICE"}, "answer": {"schema": {"type": "integer"}}}`

// What a workload asks for stands in the body as each API's documentation has it.
func TestAsksInEachAPI(t *testing.T) {
	for _, tt := range []struct{ api, choice, want string }{
		{"chat", "weather", `{"tools":[{"type":"function","function":{"name":"weather","description":"now","parameters":{"type":"object"}}},
			{"type":"function","function":{"name":"time","strict":true}}],"tool_choice":{"type":"function","function":{"name":"weather"}},
			"response_format":{"type":"json_schema","json_schema":{"name":"answer","schema":{"type":"integer"}}}}`},
		{"responses", "weather", `{"tools":[{"type":"function","name":"weather","description":"now","parameters":{"type":"object"}},
			{"type":"function","name":"time","strict":true}],"tool_choice":{"type":"function","name":"weather"},
			"text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"integer"}}}}`},
		{"responses", "required", `{"tools":[{"type":"function","name":"weather","description":"now","parameters":{"type":"object"}},
			{"type":"function","name":"time","strict":true}],"tool_choice":"required",
			"text":{"format":{"type":"json_schema","name":"answer","schema":{"type":"integer"}}}}`},
		{"anthropic", "weather", `{"tools":[{"name":"weather","description":"now","input_schema":{"type":"object"}},
			{"name":"time","input_schema":{"type":"object"},"strict":true}],"tool_choice":{"type":"tool","name":"weather"},
			"output_config":{"format":{"type":"json_schema","schema":{"type":"integer"}}}}`},
		{"anthropic", "required", `{"tools":[{"name":"weather","description":"now","input_schema":{"type":"object"}},
			{"name":"time","input_schema":{"type":"object"},"strict":true}],"tool_choice":{"type":"any"},
			"output_config":{"format":{"type":"json_schema","schema":{"type":"integer"}}}}`},
		{"gemini", "weather", `{"tools":[{"functionDeclarations":[{"name":"weather","description":"now","parametersJsonSchema":{"type":"object"}},
			{"name":"time"}]}],"toolConfig":{"functionCallingConfig":{"mode":"ANY","allowedFunctionNames":["weather"]}},
			"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"integer"}}}`},
		{"gemini", "none", `{"tools":[{"functionDeclarations":[{"name":"weather","description":"now","parametersJsonSchema":{"type":"object"}},
			{"name":"time"}]}],"toolConfig":{"functionCallingConfig":{"mode":"NONE"}},
			"generationConfig":{"responseMimeType":"application/json","responseJsonSchema":{"type":"integer"}}}`},
	} {
		t.Run(tt.api+" "+tt.choice, func(t *testing.T) { checkAsks(t, tt.api, tt.choice, asking, tt.want) })
	}
	const tools, answer = `{"tools":{"definitions":[{"name":"a"}],"choice":"CHOICE"}}`, `{"answer":{"schema":{"type":"integer"}}}`
	checkAsks(t, "chat", "", tools, `{"tools":[{"type":"function","function":{"name":"a"}}]}`)
	checkAsks(t, "chat", "auto", tools, `{"tools":[{"type":"function","function":{"name":"a"}}],"tool_choice":"auto"}`)
	checkAsks(t, "gemini", "", tools, `{"tools":[{"functionDeclarations":[{"name":"a"}]}]}`)
	for choice, said := range map[string]string{"": "", "auto": `,"toolChoice":{"auto":{}}`,
		"required": `,"toolChoice":{"any":{}}`, "a": `,"toolChoice":{"tool":{"name":"a"}}`} {
		checkAsks(t, "bedrock", choice, tools,
			`{"toolConfig":{"tools":[{"toolSpec":{"name":"a","inputSchema":{"json":{"type":"object"}}}}]`+said+`}}`)
	}
	checkAsks(t, "sglang", "", answer, `{"sampling_params":{"json_schema":"{\"type\":\"integer\"}"}}`)
	checkAsks(t, "tgi", "", answer, `{"parameters":{"grammar":{"type":"json","value":{"type":"integer"}}}}`)
}

// checkAsks compares what a workload asks for with JSON.
func checkAsks(t *testing.T, api, choice, asks, want string) {
	t.Helper()
	a, known := registry.Find(api)
	if !known {
		t.Fatalf("no API %s", api)
	}
	w := workloadOf(t, asks, choice)
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(Asks(a, w))
	if err != nil {
		t.Fatal(err)
	}
	if same, err := json.Marshal(wanted); err != nil || string(got) != string(same) {
		t.Errorf("%s:\n got %s\nwant %s", api, got, same)
	}
}

func workloadOf(t *testing.T, asks, choice string) *spatev1.Workload {
	t.Helper()
	w := &spatev1.Workload{}
	if err := protojson.Unmarshal([]byte(asks), w); err != nil {
		t.Fatal(err)
	}
	if w.GetTools() != nil {
		w.Tools.Choice = choice
	}
	return w
}

func TestTheBodyKeepsItsOwnFields(t *testing.T) {
	target := &spatev1.Target{}
	if err := protojson.Unmarshal([]byte(`{"api":"gemini","body":{"generationConfig":{"topK":1}}}`), target); err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(Asked(target, workloadOf(t, `{"answer":{"schema":{}}}`, "")).GetBody().AsMap())
	want := `{"generationConfig":{"responseJsonSchema":{},"responseMimeType":"application/json","topK":1}}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if len(target.GetBody().AsMap()["generationConfig"].(map[string]any)) != 1 {
		t.Error("the target itself was changed")
	}
	if plain := (&spatev1.Workload{}); Asked(target, plain) != target {
		t.Error("a workload that asks for nothing has a target of its own")
	}
}

// A part's body has what the part asks for, beside the target's options, which its own would replace.
func TestThePartsKeepTheTargetsOptions(t *testing.T) {
	target, mixture := &spatev1.Target{}, &spatev1.Workload{}
	for text, m := range map[string]proto.Message{
		`{"api": "gemini", "body": {"generationConfig": {"topK": 1}, "x": 1}}`:                               target,
		`{"mix": {"parts": [{"workload": {"answer": {"schema": {}}}, "body": {"y": 2}}, {"workload": {}}]}}`: mixture,
	} {
		if err := protojson.Unmarshal([]byte(text), m); err != nil {
			t.Fatal(err)
		}
	}
	asked := AskedParts(target, mixture)
	got, err := json.Marshal(asked.GetMix().GetParts()[0].GetBody().AsMap())
	want := `{"generationConfig":{"responseJsonSchema":{},"responseMimeType":"application/json","topK":1},"y":2}`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if body := asked.GetMix().GetParts()[1].GetBody(); body != nil {
		t.Errorf("a part that asks for nothing has the body %v", body)
	}
	if len(mixture.GetMix().GetParts()[0].GetBody().GetFields()) != 1 {
		t.Error("the mixture itself was changed")
	}
}

// A part's own options replace the target's, but not what the mixture asks for within them.
func TestPartsWithOptionsAnswerAsTheMixtureAsks(t *testing.T) {
	target, mixture := &spatev1.Target{}, &spatev1.Workload{}
	for text, m := range map[string]proto.Message{
		`{"api": "gemini", "body": {"generationConfig": {"topK": 1}}}`: target,
		`{"answer": {"schema": {}}, "mix": {"parts": [
			{"workload": {}, "body": {"generationConfig": {"temperature": 0.5}}},
			{"workload": {"tools": {"definitions": [{"name": "a"}]}}, "body": {"generationConfig": {"topP": 1}}},
			{"workload": {}, "body": {"x": 1}}]}}`: mixture,
	} {
		if err := protojson.Unmarshal([]byte(text), m); err != nil {
			t.Fatal(err)
		}
	}
	parts := AskedParts(target, mixture).GetMix().GetParts()
	for i, want := range []string{
		`{"generationConfig":{"responseJsonSchema":{},"responseMimeType":"application/json","temperature":0.5}}`,
		`{"generationConfig":{"responseJsonSchema":{},"responseMimeType":"application/json","topP":1},` +
			`"tools":[{"functionDeclarations":[{"name":"a"}]}]}`,
		`{"x":1}`,
	} {
		if got, err := json.Marshal(parts[i].GetBody().AsMap()); err != nil || string(got) != want {
			t.Errorf("part %d: got %s, %v", i, got, err)
		}
	}
	if len(mixture.GetMix().GetParts()[0].GetBody().AsMap()["generationConfig"].(map[string]any)) != 1 {
		t.Error("the mixture itself was changed")
	}
}
