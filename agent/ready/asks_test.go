package ready

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// A server that refuses what a plan asks for is told before the load, with the field; one that takes it costs at most
// one request.
func TestAsks(t *testing.T) {
	const tools = `"tools": [{"function": {"name": "f"}}], "tool_choice": "required"`
	for name, tt := range map[string]struct {
		body    string
		refuses []string
		target  *spatev1.Target
		tried   int64
		fails   string
	}{
		"tools refused": {tools, []string{"tools"}, nil, 3,
			"the server refuses requests with tools and tool_choice, and takes them without: "},
		"a form refused": {tools + `, "response_format": {"type": "json_object"}`, []string{"response_format"}, nil, 4,
			"the server refuses requests with response_format, and takes them without: "},
		"refused with the trial of lengths": {`"response_format": {"type": "json_object"}`, []string{"response_format"},
			&spatev1.Target{ExactOutput: "auto"}, 5, "refuses requests with response_format"},
		"another field refused": {tools + `, "colour": 1`, []string{"colour"}, nil, 2, ""},
		"taken":                 {tools, nil, nil, 1, ""},
		"nothing asked":         {`"temperature": 0`, []string{"tools"}, nil, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			target := tt.target
			if target == nil {
				target = &spatev1.Target{}
			}
			target.Api, target.Model = "chat", "m"
			body := &spatev1.Target{}
			if err := protojson.Unmarshal([]byte(`{"body": {`+tt.body+`}}`), body); err != nil {
				t.Fatal(err)
			}
			target.Body = body.GetBody()
			server := &fakeServer{models: listing("m", "x", 0), usage: true, refuses: tt.refuses}
			_, err := found(t, server, stageOf(target))
			if tt.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fails) || !strings.Contains(err.Error(), "400") {
					t.Errorf("error %v, want %s", err, tt.fails)
				}
			} else if err != nil {
				t.Error(err)
			}
			if n := server.tried.Load(); n != tt.tried {
				t.Errorf("%d requests, want %d", n, tt.tried)
			}
		})
	}
}

// Only fields that ask for more than text cost a request.
func TestCheckExtrasSendsWhatCanBeRefused(t *testing.T) {
	tools, other := map[string]any{"tools": []any{}, "temperature": 0.5}, map[string]any{"temperature": 0.5, "model": "n"}
	stage := stageOf(&spatev1.Target{Api: "chat", Model: "m"})
	client := clientOf(t, &fakeServer{}, stage.GetTarget())
	for sent, extras := range [][]Extra{{{Fields: other}}, {{Part: "a", Fields: other}, {Part: "b", Fields: tools}}} {
		if n, err := checkExtras(t.Context(), client, stage, extras); err != nil || n != uint32(sent) {
			t.Errorf("%v: %d requests, want %d: %v", extras, n, sent, err)
		}
	}
}
