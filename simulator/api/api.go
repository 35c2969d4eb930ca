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
	// Parse reads a request.
	Parse(r *http.Request, body []byte, c *config.Config) (*Request, *Error)
	// Problem returns an error in this API's form: the status and the body.
	Problem(e *Error) (status int, body []byte)
}

// Routes returns the generation APIs by the patterns of their paths.
func Routes() map[string]API {
	all := map[string]API{}
	for _, routes := range []map[string]API{
		openAIRoutes, responsesRoutes, anthropicRoutes, sglangRoutes, poolingRoutes,
	} {
		maps.Copy(all, routes)
	}
	return all
}
