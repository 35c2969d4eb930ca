package registry

import (
	"context"
	"strings"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/jsonscan"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/workload"
)

// Gemini is Google's API, as the Gemini API and Vertex AI have it: POST /v1beta/models/MODEL:streamGenerateContent.
// Each frame can have several tokens, and the usage so far. On Vertex AI, models are below a project in the endpoint's
// URL, and the key is a bearer token.
var Gemini = api.API{
	Unsimulated: true,
	Name:        "gemini", Provider: "gcp.gemini", Operation: "generate_content",
	Path: "/models/MODEL:streamGenerateContent", WholePath: "/models/MODEL:generateContent",
	Version: "/v1beta", Query: "alt=sse",
	KeyHeader: "X-Goog-Api-Key", BearerBelow: "/projects/",
	Prompts:      []api.Prompt{{Form: workload.Messages, Field: "contents"}},
	OtherPrompts: []string{"systemInstruction"}, Rewrite: geminiTurns.Rewrite,
	Options: "generationConfig", MaxFields: []string{"maxOutputTokens"},
	Parse: parseGemini, Describe: describeGemini, Count: countGemini, Tools: geminiTools, Forms: []api.Form{
		{Kind: api.FormSchema, Path: "generationConfig.responseJsonSchema"},
		{Kind: api.FormJSON, Path: "generationConfig.responseMimeType"},
	}, Demand: func(schema any) map[string]any {
		return map[string]any{"generationConfig": map[string]any{
			"responseMimeType": "application/json", "responseJsonSchema": schema,
		}}
	},
}

// geminiTools are Google's: a part of an answer is a whole call.
var geminiTools = &api.Tools{
	Names: "tools.#.functionDeclarations.#.name|@flatten", NoArguments: true,
	Calls: callPaths{all: "#.functionCall", allName: "name", allArguments: "args"}.read,
	Define: func(all []api.Tool, choice string) map[string]any {
		list := lists.Each(all, func(t api.Tool) any { return t.As("name", "description", "parametersJsonSchema") })
		fields := map[string]any{"tools": []any{map[string]any{"functionDeclarations": list}}}
		config := make(map[string]any)
		switch choice {
		case "":
			return fields
		case api.ChoiceAuto, api.ChoiceNone:
			config["mode"] = strings.ToUpper(choice)
		case api.ChoiceRequired:
			config["mode"] = "ANY"
		default:
			config["mode"], config["allowedFunctionNames"] = "ANY", []any{choice}
		}
		fields["toolConfig"] = map[string]any{"functionCallingConfig": config}
		return fields
	},
}

var geminiTurns = &api.Turns{Assistant: "model", Parts: "parts", SystemOpen: `,"systemInstruction":{"parts":[`,
	SystemClose: `]}`}

// Members of a frame, of a candidate, of its content and its parts, of the feedback and of a usage.
var (
	geminiFrame     = []string{"candidates", "usageMetadata", "error", "promptFeedback", "modelVersion"}
	geminiCandidate = []string{"content", "finishReason", "index"}
	geminiContent   = []string{"parts"}
	geminiPart      = []string{"text", "thought", "functionCall", "executableCode"}
	geminiFeedback  = []string{"blockReason"}
	geminiFault     = []string{"status"}
	geminiUsage     = []string{
		"promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount", "thoughtsTokenCount",
	}
)

func parseGemini(e api.Event, f *api.Frame) error {
	*f = api.Frame{}
	var v [5][]byte
	if err := jsonscan.Members(e.Data, geminiFrame, v[:]); err != nil {
		return err
	}
	f.Model = v[4]
	var inner [1][]byte
	if fault := v[2]; jsonscan.Filled(fault) {
		jsonscan.NestedMembers(fault, geminiFault, inner[:])
		f.Fail(jsonscan.StringBytes(inner[0]), fault)
		return nil
	}
	jsonscan.NestedMembers(v[3], geminiFeedback, inner[:])
	f.Finish = jsonscan.StringBytes(inner[0]) // the prompt was refused
	jsonscan.Each(v[0], func(candidate []byte) { addGeminiCandidate(f, candidate) })
	setGeminiTokens(f, v[1])
	return nil
}

// addGeminiCandidate records one candidate. Only the first one's text is the answer.
func addGeminiCandidate(f *api.Frame, data []byte) {
	var v [3][]byte
	jsonscan.NestedMembers(data, geminiCandidate, v[:])
	f.Chunk = true
	if reason := jsonscan.StringBytes(v[1]); len(reason) > 0 {
		f.Finish = reason
	}
	number, _ := jsonscan.Count(v[2])
	var parts [1][]byte
	jsonscan.NestedMembers(v[0], geminiContent, parts[:])
	jsonscan.Each(parts[0], func(part []byte) {
		if addGeminiPart(f, part, number == 0) && number == 0 {
			f.Calls = parts[0]
		}
	})
}

// addGeminiPart records text, a thought, a call of a function or code to execute. It reports whether the part is a
// call.
func addGeminiPart(f *api.Frame, data []byte, first bool) (call bool) {
	var v [4][]byte
	jsonscan.NestedMembers(data, geminiPart, v[:])
	text, thought := v[0], string(v[1]) == "true"
	f.AddOutput(text, thought)
	f.AddOutput(v[2], false)
	f.AddOutput(v[3], false)
	if first && !thought && len(f.Answer) == 0 {
		f.Answer = jsonscan.Unquoted(text)
	}
	return jsonscan.Filled(v[2])
}

// setGeminiTokens records a usage. Its counts of the answer and of thoughts exclude each other, and a count of 0 is
// left out.
func setGeminiTokens(f *api.Frame, usage []byte) {
	var v [4][]byte
	jsonscan.NestedMembers(usage, geminiUsage, v[:])
	f.SetUsage(v[0], v[1], v[2])
	if f.ReasoningTokens, f.HasReasoningTokens = jsonscan.Count(v[3]); f.HasReasoningTokens {
		f.Output, f.HasOutput = f.Output+f.ReasoningTokens, true
	}
}

// geminiPath is the path of a model.
func geminiPath(s api.Server) string { return "/v1beta/models/" + api.EscapeModel(s.Model()) }

// describeGemini asks GET /v1beta/models/MODEL. Servers do not report their version.
func describeGemini(ctx context.Context, s api.Server) ([]api.Model, string, error) {
	var answer struct {
		Input  uint32 `json:"inputTokenLimit"`
		Output uint32 `json:"outputTokenLimit"`
	}
	if err := s.Get(ctx, geminiPath(s), &answer); err != nil {
		return nil, "", err
	}
	return []api.Model{{ID: s.Model(), MaxModelTokens: answer.Input + answer.Output}}, "", nil
}

// countGemini asks POST /v1beta/models/MODEL:countTokens. It always counts a chat: the API cannot count a text alone.
func countGemini(ctx context.Context, s api.Server, text string, _ bool) (api.Tokens, error) {
	path := geminiPath(s) + ":countTokens"
	contents, err := geminiTurns.UserMessages(text)
	if err != nil {
		return api.Tokens{}, s.Unusable(path, err.Error())
	}
	return api.CountBy(ctx, s, path, map[string]any{"contents": contents}, "totalTokens")
}
