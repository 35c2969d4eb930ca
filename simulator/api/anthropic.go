package api

import (
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// anthropic is Anthropic's messages API.
type anthropic struct{ *frames }

var anthropicRoutes = map[string]API{"POST /v1/messages": anthropic{apis["anthropic"]}}

func (a anthropic) Parse(_ *http.Request, body []byte, c *config.Config) (*Request, *Error) {
	r := read(a.frames, c, body)
	r.named(get[string](r, "model"))
	r.require(r.member("max_tokens") != nil, "max_tokens is missing: this API requires it")
	r.content("system")
	r.conversation(get[[]message](r, "messages"))
	r.engineFields()
	r.asked()
	return r.done("max_tokens")
}

// anthropicError returns an error with the API's type, which streams use too.
func anthropicError(e *Error) *Error {
	kinds := map[int]string{
		http.StatusBadRequest:            "invalid_request_error",
		http.StatusUnauthorized:          "authentication_error",
		http.StatusNotFound:              "not_found_error",
		http.StatusRequestEntityTooLarge: "request_too_large",
		http.StatusTooManyRequests:       "rate_limit_error",
	}
	return &Error{Message: e.Message, Type: cmp.Or(kinds[e.status], "api_error")}
}

// input appends the input of a whole tool call, which is an object: empty if it was cut.
func (p *FrameWriter) input(b []byte) []byte {
	var input string
	_ = json.Unmarshal(p.text(nil, p.split, p.until), &input) // it is a string
	if !json.Valid([]byte(input)) {
		input = "{}"
	}
	return append(b, input...)
}
