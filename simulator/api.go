package simulator

import (
	"net/http"
)

// api is one generation API: how a request is read and an answer is written. It keeps no state; its methods are called
// by many goroutines at once. A new API is a file with one, and a route in routes.
type api interface {
	// parse reads a request. What all APIs share is checked by request.limit.
	parse(r *http.Request, body []byte, c *Config) (*request, *apiError)
	// encoder returns what writes the answer to one request of this API.
	encoder(q *request, c *Config, id string, created int64) encoder
	// problem returns an error as this API says it: its status and the body.
	problem(e *apiError) (status int, body []byte)
}

// encoder appends the frames of one answer to a buffer. For a token it allocates nothing once the buffer has grown.
type encoder interface {
	// opening appends what comes before the first token, nothing if the API has no such frames.
	opening(b []byte) []byte
	// tokens appends the frames of tokens from to until, counted from 0; nothing if the API has no frame for tokens
	// without text. finish is the reason of the end, empty before it. An API that has no place for it leaves it out.
	tokens(b []byte, from, until int, finish string) []byte
	// closing appends what follows the last token: it is called with part 0, 1, ... as long as it returns true, and
	// each part is a write.
	closing(b []byte, part, output int, finish string) ([]byte, bool)
	// whole appends the answer that is not streamed.
	whole(b []byte, output int, finish string) []byte
	// failure appends an error in the place of a frame, or of the body.
	failure(b []byte, e *apiError) []byte
	// broken appends a frame, or a body, of JSON that breaks off.
	broken(b []byte) []byte
	// mark appends the mark that ends each stream, failed ones too; nothing if the API has none.
	mark(b []byte) []byte
	// common returns the part that all encoders share.
	common() *pen
}

// routes are the paths of the generation APIs.
var routes = map[string]api{
	"POST /v1/chat/completions":                                  chat,
	"POST /v1/completions":                                       completions,
	"POST /v1/responses":                                         responses{},
	"POST /v1/messages":                                          anthropic{},
	"POST /generate":                                             generate{},
	"POST /generate_stream":                                      tgi{stream: true},
	"POST /v2/models/{model}/generate":                           triton{},
	"POST /v2/models/{model}/generate_stream":                    triton{stream: true},
	"POST /v2/models/{model}/versions/{version}/generate":        triton{},
	"POST /v2/models/{model}/versions/{version}/generate_stream": triton{stream: true},
}
