// Package api reads the requests and writes the answers of the APIs of LLM servers, one file each. It is pure: it turns
// bytes into a Request, and numbers of tokens into bytes. When they are sent is decided elsewhere, except for the send
// time in a frame: Seal reads the clock just before the system call.
package api

import (
	"maps"
	"net/http"

	"github.com/spate-load/spate/simulator/config"
)

// API is one generation API: it reads requests and writes answers. It has no state, and its methods are safe for
// concurrent use. A new API is a file with a type that implements API, with its routes and its frames, and an entry in
// Routes.
type API interface {
	// Parse reads a request. request.limit makes the checks that all APIs share.
	Parse(r *http.Request, body []byte, c *config.Config) (*Request, *Error)
	// Encoder returns the encoder of the answer to one request of this API.
	Encoder(q *Request, c *config.Config, id string, created int64) Encoder
	// Problem returns an error in this API's form: the status and the body. It may set headers of the answer.
	Problem(e *Error, r *http.Request, headers http.Header) (status int, body []byte)
}

// Counter is a path of an API that only counts the tokens of a prompt.
type Counter interface {
	API
	// Count returns the body of the answer.
	Count(body []byte, c *config.Config) ([]byte, *Error)
}

// Encoder appends the frames of one answer to a buffer. Once the buffer has grown, a token costs no allocation.
type Encoder interface {
	// Opening appends the frames before the first token, or nothing if the API has no such frames.
	Opening(b []byte) []byte
	// Tokens appends the frames of tokens from to until-1, counted from 0, or nothing if the API has no frame for
	// tokens without text. finish is the finish reason, empty before the end. An API without a field for it leaves it
	// out.
	Tokens(b []byte, from, until int, finish string) []byte
	// Closing appends what follows the last token. It is called with part 0, 1, ... until it returns false. Each part
	// is one write.
	Closing(b []byte, part, output int, finish string) ([]byte, bool)
	// Whole appends an answer that is not streamed.
	Whole(b []byte, output int, finish string) []byte
	// Failure appends an error in place of a frame, or of the body.
	Failure(b []byte, e *Error) []byte
	// Broken appends a frame, or a body, of truncated JSON.
	Broken(b []byte) []byte
	// Mark appends the end mark of a stream, which failed streams have too, or nothing if the API has none.
	Mark(b []byte) []byte
	// Common returns the part that all encoders share.
	Common() *FrameWriter
}

// Routes returns the generation APIs by the patterns of their paths.
func Routes() map[string]API {
	all := map[string]API{}
	for _, routes := range []map[string]API{
		openAIRoutes, responsesRoutes, anthropicRoutes, sglangRoutes, bedrockRoutes, geminiRoutes, poolingRoutes,
	} {
		maps.Copy(all, routes)
	}
	return all
}
