package rules

import (
	"cmp"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

const (
	aboutConnection = "is about the connection, which Spate opens and closes itself: leave it out, and see the target's connection"
	framesBody      = "sets how the body is framed, which Spate decides: leave it out"
)

// refusedHeaders maps headers that a plan cannot give, in canonical form, to the reason and what to do instead.
var refusedHeaders = map[string]string{
	"Connection":          aboutConnection,
	"Keep-Alive":          aboutConnection,
	"Proxy-Connection":    aboutConnection,
	"Upgrade":             aboutConnection,
	"Http2-Settings":      aboutConnection,
	"Content-Length":      framesBody,
	"Transfer-Encoding":   framesBody,
	"Te":                  framesBody,
	"Trailer":             framesBody,
	"Content-Encoding":    "says that the body is compressed, and Spate sends plain JSON: leave it out",
	"Expect":              "makes the server answer before the body is sent, which Spate does not wait for: leave it out",
	"Proxy-Authorization": "is for the proxy and not for the endpoint: give it as connection.proxy_auth",
	"X-Request-Id":        "is set by Spate for each request, to match results with server logs: leave it out",
}

func (c *checker) headers(path string, t *spatev1.Target) {
	seen := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(t.GetHeaders())) {
		canonical := http.CanonicalHeaderKey(name)
		at := path + ".headers[" + strconv.Quote(name) + "]"
		if problem := headerProblem(name, t.GetHeaders()[name]); problem != "" {
			c.wrong(at, problem)
		} else if seen[canonical] != "" {
			c.wrong(at, fmt.Sprintf("is the same header as %q: case does not matter", seen[canonical]))
		} else if canonical == cmp.Or(defaults.API(t).KeyHeader, "Authorization") && t.GetApiKey() != "" {
			c.wrong(at, "is also sent by api_key: give one of them")
		}
		seen[canonical] = name
	}
}

// headerProblem returns what is wrong with a header, without its value, or "" if nothing is.
func headerProblem(name, value string) string {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "is not a valid header name"
	case refusedHeaders[canonical] != "":
		return refusedHeaders[canonical]
	case canonical == "Content-Type" && !isJSON(value):
		return "must be application/json, like the body: leave it out"
	case canonical == "Accept-Encoding" && value != "identity":
		return "asks for compressed answers, which Spate does not read because their tokens arrive in bursts: leave it out"
	case secret.IsReference(value):
		return secret.Problem(value)
	case canonical == "Host" && !validHost(value):
		return "must be a host such as llm.example.com, or a host with a port"
	case secret.HeaderName(name):
		return "has the name of a secret: its value must be env:NAME or file:PATH"
	case !httpguts.ValidHeaderFieldValue(value):
		return "has a value with line breaks or control characters"
	}
	return ""
}

// isJSON reports whether a media type is JSON.
func isJSON(value string) bool {
	media, _, err := mime.ParseMediaType(value)
	return err == nil && (media == "application/json" || strings.HasSuffix(media, "+json"))
}

// validHost reports whether value is a host, with or without a port, that a request can name.
func validHost(value string) bool {
	u, err := url.Parse("http://" + value)
	return err == nil && u.Hostname() != "" && u.Host == value && naming.ValidPort(u)
}
