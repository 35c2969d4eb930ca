package api

import (
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// responses is OpenAI's responses API.
type responses struct{ *frames }

var responsesRoutes = map[string]API{"POST /v1/responses": responses{apis["responses"]}}

func (a responses) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	r := read(a.frames, c, body)
	r.named(get[string](r, "model"))
	r.content("instructions")
	input := r.member("input")
	items := []message{{input}}
	if kindOf(input) != '"' {
		items = nil
		isArray := kindOf(input) == '[' && json.Unmarshal(input, &items) == nil
		r.require(isArray, "input is missing, or neither a string nor an array of messages")
	}
	r.conversation(items)
	r.engineFields()
	r.asked()
	return r.done("max_output_tokens")
}
