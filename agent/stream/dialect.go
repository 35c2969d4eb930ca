package stream

import "fmt"

// dialect is one API: where its requests go, how a request is written and what an answer's frames say. A dialect keeps no
// state; its methods are called by many goroutines at once.
type dialect interface {
	// path is the API's path below /v1.
	path() string
	// takesTokenIDs says whether a prompt may be an array of token ids.
	takesTokenIDs() bool
	// defaults sets the fields of a body that the client fills in unless the plan gives them, slots among them.
	defaults(body map[string]any, model string)
	// frame reads one event's data, or a whole answer. It must not keep data, and must not allocate for a token. An error:
	// the data is none of this API's.
	frame(data []byte, f *frame) error
}

// dialectOf returns the dialect with a name.
func dialectOf(api string) (dialect, error) {
	switch api {
	case "", "chat":
		return chat{}, nil
	case "completions":
		return completions{}, nil
	}
	return nil, fmt.Errorf("api %q is not known: say \"chat\" or \"completions\"", api)
}

// openAI is what OpenAI's two APIs share.
type openAI struct{}

func (openAI) frame(data []byte, f *frame) error { return openAIFrame(data, f) }

func (openAI) defaults(body map[string]any, model string) {
	body["model"] = model
	body["max_tokens"] = lengthSlot
	body["stream"] = true
	body["stream_options"] = map[string]any{"include_usage": true}
}

// chat is POST /v1/chat/completions.
type chat struct{ openAI }

func (chat) path() string        { return "/chat/completions" }
func (chat) takesTokenIDs() bool { return false }

func (d chat) defaults(body map[string]any, model string) {
	d.openAI.defaults(body, model)
	body["messages"] = promptSlot
}

// completions is POST /v1/completions.
type completions struct{ openAI }

func (completions) path() string        { return "/completions" }
func (completions) takesTokenIDs() bool { return true }

func (d completions) defaults(body map[string]any, model string) {
	d.openAI.defaults(body, model)
	body["prompt"] = promptSlot
}
