package api

import (
	"encoding/json"
	"slices"

	"github.com/spate-load/spate/simulator/config"
)

// asked is what a request of chat, completions, responses or Anthropic's messages asks for besides text: tools, and the
// form of the answer.
type asked struct {
	Tools             []tool          `json:"tools"`
	ToolChoice        json.RawMessage `json:"tool_choice"`
	ResponseFormat    responseFormat  `json:"response_format"`
	StructuredOutputs structured      `json:"structured_outputs"`
	GuidedJSON        json.RawMessage `json:"guided_json"`
	OutputConfig      outputConfig    `json:"output_config"`
	Text              textConfig      `json:"text"`
}

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

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"json_schema"`
}

// outputConfig is Anthropic's.
type outputConfig struct {
	Format struct {
		Schema json.RawMessage `json:"schema"`
	} `json:"format"`
}

// textConfig is that of the responses API.
type textConfig struct {
	Format struct {
		Type   string          `json:"type"`
		Schema json.RawMessage `json:"schema"`
	} `json:"format"`
}

type structured struct {
	JSON json.RawMessage `json:"json"`
}

// script says what the answer says, if the request asks for more than words.
func (a *asked) script(q *Request, c *config.Config) *Error {
	schema := firstOf(a.ResponseFormat.JSONSchema.Schema, a.StructuredOutputs.JSON, a.GuidedJSON,
		a.OutputConfig.Format.Schema, a.Text.Format.Schema)
	if a.ResponseFormat.Type == "json_object" || a.Text.Format.Type == "json_object" {
		schema = json.RawMessage(`{"type":"object"}`)
	}
	name := "tools"
	if len(a.Tools) == 0 {
		name = "response_format"
	}
	heard, problem := apply(c.Dialect.Tools, name, len(a.Tools) > 0 || schema != nil)
	if problem != nil || !heard {
		return problem
	}
	if schema != nil {
		q.said = piecesOf(JSON(instance(schema, 0)))
	}
	switch forced := a.forced(); forced {
	case "":
	case choiceAuto:
		q.mayCall = a.Tools
	case anyTool:
		if len(a.Tools) == 0 {
			return BadRequest("tool_choice forces a call, and there are no tools")
		}
		q.calls(a.Tools[0])
	default:
		i := slices.IndexFunc(a.Tools, func(t tool) bool { return t.name() == forced })
		if i < 0 {
			return BadRequest("tool_choice names a tool that tools does not have: " + forced)
		}
		q.calls(a.Tools[i])
	}
	return nil
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

// anyTool stands for any of the tools, choiceAuto for any of them or words.
const (
	anyTool    = "any"
	choiceAuto = "auto"
)

// forced returns the tool that must be called, anyTool, or choiceAuto, the default. Empty: none.
func (a *asked) forced() string {
	if kindOf(a.ToolChoice) == 0 || kindOf(a.ToolChoice) == 'n' {
		return choiceAuto
	}
	var word string
	var choice struct {
		Type string `json:"type"`
		tool
	}
	switch {
	case json.Unmarshal(a.ToolChoice, &word) == nil: // OpenAI's words
	case json.Unmarshal(a.ToolChoice, &choice) != nil:
		return ""
	case choice.name() != "":
		return choice.name()
	default:
		word = choice.Type // Anthropic's
	}
	switch word {
	case "required", anyTool:
		return anyTool
	case choiceAuto:
		return choiceAuto
	}
	return ""
}

func firstOf(all ...json.RawMessage) json.RawMessage {
	for _, one := range all {
		if kindOf(one) != 0 && kindOf(one) != 'n' {
			return one
		}
	}
	return nil
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
