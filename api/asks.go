package api

import (
	"maps"

	"github.com/tidwall/gjson"
)

// Tools says how an API calls tools.
type Tools struct {
	// Names is the gjson path of the names of the tools that a request's body defines.
	Names string
	// Calls reads the value of Frame.Calls, and calls add for each piece of a tool call in it.
	Calls func(value []byte, add func(CallPiece))
	// Define returns the fields of a body that define tools, and say which must be called: ChoiceAuto, ChoiceNone,
	// ChoiceRequired, or a tool by its name. Empty: the server decides as it does by default.
	Define func(tools []Tool, choice string) map[string]any
	// NoNone: requests cannot say ChoiceNone.
	NoNone bool
	// NoArguments: a call without arguments has no piece with arguments. Otherwise its arguments are "{}".
	NoArguments bool
}

// What a request can say about the tools that it defines, besides the name of the one that must be called.
const (
	ChoiceAuto     = "auto"     // the model decides
	ChoiceNone     = "none"     // no tool may be called
	ChoiceRequired = "required" // any of them must be called
)

// Tool is the definition of a tool.
type Tool struct {
	Name, Description string
	// Parameters is the JSON Schema of the arguments. Nil: none.
	Parameters any
	// Strict: the arguments must satisfy the schema. Only some APIs can say it.
	Strict bool
}

// As returns the members of the definition by the names that an API has for them. Members that are empty are left out.
func (t *Tool) As(name, description, parameters string) map[string]any {
	all := map[string]any{name: t.Name}
	if t.Description != "" {
		all[description] = t.Description
	}
	if t.Parameters != nil {
		all[parameters] = t.Parameters
	}
	return all
}

// Merge adds fields to a body. Objects that both have are merged.
func Merge(body, fields map[string]any) {
	for name, value := range fields {
		own, isOwn := body[name].(map[string]any)
		if more, is := value.(map[string]any); is && isOwn {
			merged := maps.Clone(own)
			Merge(merged, more)
			value = merged
		}
		body[name] = value
	}
}

// CallPiece is a piece of a tool call.
type CallPiece struct {
	// Index tells the calls of an answer apart. -1: the server sends none. Then a piece with a name starts a call, and
	// one without continues the last call.
	Index int
	// Name of the tool. Empty in pieces that continue a call.
	Name string
	// Arguments is a piece of the JSON text of the arguments.
	Arguments string
}

// ArgumentsText returns a piece of the text of a call's arguments: the content of a string, or the text of any other
// JSON value.
func ArgumentsText(value gjson.Result) string {
	if value.Type == gjson.String {
		return value.String()
	}
	return value.Raw
}

// IndexOf returns the index of a call, -1 for a value that is missing.
func IndexOf(value gjson.Result) int {
	if !value.Exists() {
		return -1
	}
	return int(value.Int())
}

// FormKind is a kind of form that a request can demand of an answer.
type FormKind uint8

const (
	// FormSchema is a JSON Schema that the answer satisfies, as an object or as its text.
	FormSchema FormKind = iota
	// FormJSON is any JSON. The value is true, or one of the names for JSON.
	FormJSON
	// FormRegex is a regular expression that the whole answer matches.
	FormRegex
	// FormChoice is a list of texts of which the answer is one.
	FormChoice
)

// Form is where a request's body says which form its answer must have.
type Form struct {
	Kind FormKind
	// Path is the gjson path of the schema, the expression or the list.
	Path string
}
