package registry

import (
	"context"
	"strings"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/workload"
)

// Bedrock is Amazon's Converse API: POST /model/MODEL/converse-stream. The name of an event is its kind. Reasoning has
// blocks of its own, and the usage comes last.
var Bedrock = api.API{
	Unsimulated: true,
	Name:        "bedrock", Provider: "aws.bedrock",
	Path: "/model/MODEL/converse-stream", WholePath: "/model/MODEL/converse",
	Headers:      map[string]string{"Accept": "application/vnd.amazon.eventstream"},
	Prompts:      []api.Prompt{{Form: workload.Messages, Field: "messages"}},
	OtherPrompts: []string{"system"}, Rewrite: bedrockTurns.Rewrite,
	Options: "inferenceConfig", MaxFields: []string{"maxTokens"},
	Framing: api.EventStream, Parse: parseBedrock, Count: countBedrock, Tools: bedrockTools,
}

// bedrockTools are Bedrock's: a block for each call, whose start has the name. Answers in one piece have a list of
// blocks.
var bedrockTools = &api.Tools{
	Names: "toolConfig.tools.#.toolSpec.name", NoArguments: true, Calls: callPaths{
		index: "contentBlockIndex", name: "start.toolUse.name", arguments: "delta.toolUse.input",
		all: "#.toolUse", allName: "name", allArguments: "input",
	}.read, NoNone: true, Define: func(all []api.Tool, choice string) map[string]any {
		var list []any
		for _, t := range all {
			tool := t.As("name", "description", "inputSchema")
			schema := t.Parameters
			if schema == nil {
				schema = map[string]any{"type": "object"} // the API requires one
			}
			tool["inputSchema"] = map[string]any{"json": schema}
			list = append(list, map[string]any{"toolSpec": tool})
		}
		config := map[string]any{"tools": list}
		switch choice {
		case "":
		case api.ChoiceAuto:
			config["toolChoice"] = map[string]any{"auto": map[string]any{}}
		case api.ChoiceRequired:
			config["toolChoice"] = map[string]any{"any": map[string]any{}}
		default:
			config["toolChoice"] = map[string]any{"tool": map[string]any{"name": choice}}
		}
		return map[string]any{"toolConfig": config}
	},
}

var bedrockTurns = &api.Turns{Assistant: "assistant", Parts: "content", SystemOpen: `,"system":[`, SystemClose: `]`}

// Members of an event or a whole answer, of a block, its start or its delta, of a tool's call, of reasoning and its
// text, of the output and its message, and of a usage.
var (
	bedrockEvent     = []string{"delta", "start", "stopReason", "usage", "output", "message"}
	bedrockBlock     = []string{"text", "reasoningContent", "toolUse"}
	bedrockTool      = []string{"name", "input"}
	bedrockReasoning = []string{"text", "reasoningText"}
	bedrockText      = []string{"text"}
	bedrockOutput    = []string{"message"}
	bedrockMessage   = []string{"content"}
	bedrockUsage     = []string{"inputTokens", "cacheReadInputTokens", "outputTokens", "cacheWriteInputTokens"}
)

func parseBedrock(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	if e.Failed {
		failBedrock(f, e)
		return nil
	}
	var v [6][]byte
	if err := jsonscan.Members(e.Data, bedrockEvent, v[:]); err != nil {
		return err
	}
	delta, start, reason, usage := v[0], v[1], v[2], v[3]
	switch string(e.Name) {
	case "contentBlockDelta":
		addBedrockBlock(f, delta, e.Data)
	case "contentBlockStart":
		addBedrockBlock(f, start, e.Data)
	case "contentBlockStop":
		f.EndPart()
	case "messageStop":
		f.Finish = jsonscan.StringBytes(reason)
		f.EndPart()
	case "metadata":
		setTokens(f, usage, bedrockUsage)
		f.End = true
	case "": // an answer in one piece
		if jsonscan.Filled(v[5]) {
			failBedrock(f, e)
			return nil
		}
		addBedrockOutput(f, v[4])
		f.Finish, f.Chunk = jsonscan.StringBytes(reason), true
		setTokens(f, usage, bedrockUsage)
	}
	return nil
}

// failBedrock records an exception, whose name is the event's, or an error of the stream itself, which is not JSON.
func failBedrock(f *api.Frame, e api.Event) {
	message := string(e.Data)
	if o := jsonscan.Object(e.Data); o != nil {
		message = jsonscan.Text(o["message"])
	}
	f.Failed, f.Fault = true, strings.Trim(string(e.Name)+": "+message, ": ")
}

// addBedrockBlock records a block, its start or its delta: text, reasoning, a tool's name or its input. For a tool
// call, or a piece of its input, calls is what Tools.Calls reads.
func addBedrockBlock(f *api.Frame, data, calls []byte) {
	var v [3][]byte
	var tool, reasoning [2][]byte
	var text [1][]byte
	jsonscan.NestedMembers(data, bedrockBlock, v[:])
	jsonscan.NestedMembers(v[1], bedrockReasoning, reasoning[:])
	jsonscan.NestedMembers(reasoning[1], bedrockText, text[:])
	jsonscan.NestedMembers(v[2], bedrockTool, tool[:])
	f.AddOutput(v[0], false)
	f.AddOutput(reasoning[0], true)
	f.AddOutput(text[0], true)
	f.AddOutput(tool[0], false)
	f.AddOutput(tool[1], false)
	f.Chunk = f.Token || f.EmptyText
	if len(f.Answer) == 0 {
		f.Answer = jsonscan.Unquoted(v[0])
	}
	if len(v[2]) > 0 {
		f.Calls = calls
	}
}

// addBedrockOutput records the blocks of an answer in one piece. Its first text counts as the answer.
func addBedrockOutput(f *api.Frame, data []byte) {
	var message, content [1][]byte
	jsonscan.NestedMembers(data, bedrockOutput, message[:])
	jsonscan.NestedMembers(message[0], bedrockMessage, content[:])
	jsonscan.Each(content[0], func(block []byte) { addBedrockBlock(f, block, content[0]) })
}

// countBedrock asks POST /model/MODEL/count-tokens. It always counts a chat.
func countBedrock(ctx context.Context, s api.Server, text string, _ bool) (api.Tokens, error) {
	path := "/model/" + api.EscapeModel(s.Model()) + "/count-tokens"
	messages, err := bedrockTurns.UserMessages(text)
	if err != nil {
		return api.Tokens{}, s.Unusable(path, err.Error())
	}
	fields := map[string]any{"input": map[string]any{"converse": map[string]any{"messages": messages}}}
	return api.CountBy(ctx, s, path, fields, "inputTokens")
}
