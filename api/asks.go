package api

import "github.com/tidwall/gjson"

// Tools says how an API calls tools.
type Tools struct {
	// Names is the gjson path of the names of the tools that a request's body defines.
	Names string
	// Calls reads the value of Frame.Calls, and calls add for each piece of a tool call in it.
	Calls func(value []byte, add func(CallPiece))
	// NoArguments: a call without arguments has no piece with arguments. Otherwise its arguments are "{}".
	NoArguments bool
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
