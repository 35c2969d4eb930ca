package simulator

import (
	"net/http"
)

// api is one generation API: it reads requests and writes answers. It has no state, and its methods are safe for
// concurrent use. A new API is a file with a type that implements api, and a route in routes.
type api interface {
	// parse reads a request. request.limit makes the checks that all APIs share.
	parse(r *http.Request, body []byte, c *Config) (*request, *apiError)
	// encoder returns the encoder of the answer to one request of this API.
	encoder(q *request, c *Config, id string, created int64) encoder
	// problem returns an error in this API's form: the status and the body.
	problem(e *apiError) (status int, body []byte)
}

// encoder appends the frames of one answer to a buffer. Once the buffer has grown, a token costs no allocation.
type encoder interface {
	// opening appends the frames before the first token, or nothing if the API has no such frames.
	opening(b []byte) []byte
	// tokens appends the frames of tokens from to until-1, counted from 0, or nothing if the API has no frame for
	// tokens without text. finish is the finish reason, empty before the end. An API without a field for it leaves it
	// out.
	tokens(b []byte, from, until int, finish string) []byte
	// closing appends what follows the last token. It is called with part 0, 1, ... until it returns false. Each part
	// is one write.
	closing(b []byte, part, output int, finish string) ([]byte, bool)
	// whole appends an answer that is not streamed.
	whole(b []byte, output int, finish string) []byte
	// failure appends an error in place of a frame, or of the body.
	failure(b []byte, e *apiError) []byte
	// broken appends a frame, or a body, of truncated JSON.
	broken(b []byte) []byte
	// mark appends the end mark of a stream, which failed streams have too, or nothing if the API has none.
	mark(b []byte) []byte
	// common returns the part that all encoders share.
	common() *frameWriter
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
