package stream

import (
	"fmt"

	"github.com/spate-load/spate/workload"
)

// dialect is one API: where its requests go, how a request is written and what an answer's frames say. A dialect keeps no
// state; its methods are called by many goroutines at once.
type dialect interface {
	// path is the API's path below /v1.
	path() string
	// form is how a prompt is written.
	form() workload.Form
	// prompt is the body's field that the prompt goes into.
	prompt() string
	// defaults sets the fields of a body that the client fills in unless the plan gives them, slots among them.
	defaults(body map[string]any, model string)
	// frame reads one event's data, or a whole answer. It must not keep data, and must not allocate for a token. An error:
	// the data is none of this API's.
	frame(data []byte, f *frame) error
}

// dialectOf returns the dialect of an API whose prompts have a form. A chat's prompts have only one.
func dialectOf(api, prompts string) (dialect, error) {
	form := workload.TokenIDs
	switch prompts {
	case "", "token_ids":
	case "text":
		form = workload.Text
	default:
		return nil, fmt.Errorf("prompts %q are not known: say \"token_ids\" or \"text\"", prompts)
	}
	switch api {
	case "", "chat":
		return chat{}, nil
	case "completions":
		return completions{written: form}, nil
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
func (chat) form() workload.Form { return workload.Messages }
func (chat) prompt() string      { return "messages" }

func (d chat) defaults(body map[string]any, model string) {
	d.openAI.defaults(body, model)
	body[d.prompt()] = promptSlot
}

// completions is POST /v1/completions.
type completions struct {
	openAI
	written workload.Form // of the prompts
}

func (completions) path() string          { return "/completions" }
func (d completions) form() workload.Form { return d.written }
func (completions) prompt() string        { return "prompt" }

func (d completions) defaults(body map[string]any, model string) {
	d.openAI.defaults(body, model)
	body[d.prompt()] = promptSlot
}
