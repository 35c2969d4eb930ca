package api

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/spate-load/spate/internal/lists"
)

// tool is the definition of a tool: that of OpenAI's chat has the name and the parameters in "function".
type tool struct {
	Function    function        `json:"function"`
	Name        string          `json:"name"`
	Parameters  json.RawMessage `json:"parameters"`   // of the responses API
	InputSchema json.RawMessage `json:"input_schema"` // of Anthropic
}

type function struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

// formats are the members with the schema that an answer must satisfy: those of chat and completions, of Anthropic's
// messages, and of responses.
var formats = []string{"response_format.json_schema.schema", "structured_outputs.json", "guided_json",
	"output_config.format.schema", "text.format.schema"}

// asked takes what a request of chat, completions, responses or Anthropic's messages asks for besides text: tools, and
// the form of the answer. It says what the answer says then.
func (r *reading) asked() {
	tools := get[[]tool](r, "tools")
	schemas := lists.Each(formats, r.member)
	schema := firstOf(schemas...)
	if get[string](r, "response_format.type") == "json_object" || get[string](r, "text.format.type") == "json_object" {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	name := "tools"
	if len(tools) == 0 {
		name = "response_format"
	}
	heard, problem := apply(r.config.Dialect.Tools, name, len(tools) > 0 || schema != nil)
	if r.problem = cmp.Or(r.problem, problem); r.problem != nil || !heard {
		return
	}
	if schema != nil {
		r.said = piecesOf(JSON(instance(schema, 0)))
	}
	if forced := forced(r.member("tool_choice")); forced != "" {
		i := slices.IndexFunc(tools, func(t tool) bool { return forced == anyTool || t.name() == forced })
		r.require(i >= 0, "tool_choice forces a call of a tool that tools does not have: "+forced)
		if i >= 0 {
			r.calls(tools[i])
		}
	}
}

// calls makes the answer a call of a tool.
func (q *Request) calls(t tool) {
	q.call = t.name()
	q.said = piecesOf(JSON(instance(firstOf(t.Function.Parameters, t.Parameters, t.InputSchema,
		json.RawMessage(`{"type":"object"}`)), 0)))
}

func (t *tool) name() string {
	if t.Name != "" {
		return t.Name
	}
	return t.Function.Name
}

// anyTool stands for any of the tools.
const anyTool = "any"

// forced returns the tool that tool_choice says must be called, or anyTool. Empty: none, the answer is words.
func forced(choice json.RawMessage) string {
	var word string
	var object struct {
		Type string `json:"type"`
		tool
	}
	switch {
	case json.Unmarshal(choice, &word) == nil: // OpenAI's words
	case json.Unmarshal(choice, &object) != nil:
		return ""
	case object.name() != "":
		return object.name()
	default:
		word = object.Type // Anthropic's
	}
	switch word {
	case "required", anyTool:
		return anyTool
	}
	return ""
}

func firstOf(all ...json.RawMessage) json.RawMessage {
	return lists.Find(all, func(one json.RawMessage) bool { return kindOf(one) != 0 && kindOf(one) != 'n' })
}

// deepest is how deep instances are made. Schemas may refer to themselves.
const deepest = 16

// instance makes a small value that satisfies a schema, as far as the simulator knows schemas: types, properties,
// items, enum and const. A schema in a string is read.
func instance(raw json.RawMessage, depth int) any {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		raw = json.RawMessage(text)
	}
	var schema struct {
		Type       json.RawMessage            `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
		Items      json.RawMessage            `json:"items"`
		MinItems   int                        `json:"minItems"`
		Minimum    float64                    `json:"minimum"`
		Enum       []any                      `json:"enum"`
		Const      any                        `json:"const"`
	}
	if depth > deepest || json.Unmarshal(raw, &schema) != nil {
		return nil
	}
	switch kind := typeIn(schema.Type); {
	case schema.Const != nil:
		return schema.Const
	case len(schema.Enum) > 0:
		return schema.Enum[0]
	case kind == "string":
		return "river"
	case kind == "integer", kind == "number":
		return schema.Minimum
	case kind == "boolean":
		return true
	case kind == "array":
		items := make([]any, min(max(schema.MinItems, 1), deepest))
		for i := range items {
			items[i] = instance(schema.Items, depth+1)
		}
		return items
	case kind == "object" || schema.Properties != nil:
		members := make(map[string]any)
		for name, of := range schema.Properties {
			members[name] = instance(of, depth+1)
		}
		return members
	}
	return nil
}

// typeIn returns a schema's type, or the first of several.
func typeIn(raw json.RawMessage) string {
	var one string
	var several []string
	if json.Unmarshal(raw, &one) != nil && json.Unmarshal(raw, &several) == nil && len(several) > 0 {
		return several[0]
	}
	return one
}

// pieceLength is how many characters of JSON one token has.
const pieceLength = 4

// piecesOf cuts a JSON text into the texts of tokens, as they stand in a JSON string.
func piecesOf(text []byte) (all []string) {
	for piece := range slices.Chunk([]rune(string(text)), pieceLength) {
		quoted := JSON(string(piece))
		all = append(all, string(quoted[1:len(quoted)-1]))
	}
	return all
}
