package plans

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func (c *checker) target(path string, t *spatev1.Target) {
	endpoints, simulated := c.has(path+".endpoints"), c.has(path+".simulator")
	switch {
	case !endpoints && !simulated:
		c.absent(path, "says neither endpoints nor simulator: give one of them", "endpoints", "simulator")
	case endpoints && t.GetModel() == "" && !c.has(path+".model"):
		c.absent(path, "has no model: give the name under which the endpoints serve it", "model")
	case c.has(path+".model") && t.GetModel() == "":
		c.wrong(path+".model", "must not be empty: give the name under which the endpoints serve it")
	}
	c.api(path, t)
	c.endpoints(path+".endpoints", t.GetEndpoints())
	c.simulator(path+".simulator", t.GetSimulator())
	c.headers(path, t)
	c.body(path+".body", t)
	c.serverMetrics(path+".server_metrics", t)
	c.connection(path+".connection", t)
}

// simulator checks how the parts of a simulated target go together.
func (c *checker) simulator(path string, s *spatev1.SimulatedTarget) {
	if s == nil {
		return
	}
	if at := path + ".prefill_interference"; c.has(at) && s.GetPrefillEngines() > 0 {
		c.wrong(at, "does not go with prefill_engines: engines that only decode lose nothing to prefill")
	}
	if at := path + ".transfer_per_thousand_tokens"; c.has(at) && s.GetPrefillEngines() == 0 {
		c.wrong(at, "goes with prefill_engines only: without them nothing is handed over")
	}
	if at := path + ".cache_block_tokens"; c.has(at) && s.GetCacheBlocks() == 0 {
		c.wrong(at, "goes with cache_blocks only: without them there is no prefix cache")
	}
}

func (c *checker) endpoints(path string, urls []string) {
	seen := make(map[string]bool)
	for i, text := range urls {
		at := fmt.Sprintf("%s[%d]", path, i)
		if problem := endpointProblem(text); problem != "" {
			c.wrong(at, problem)
			continue
		}
		if base := baseURL(text); !seen[base] {
			seen[base] = true
		} else if !c.told[path] {
			c.wrong(at, "is listed twice: a trailing slash makes no difference")
		}
	}
}

// baseURL returns the endpoint as stages have it.
func baseURL(endpoint string) string { return strings.TrimRight(endpoint, "/") }

// apiPaths follow an endpoint's base URL.
var apiPaths = []string{
	"/v1", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/messages", "/generate", "/generate_stream", "/v2",
}

// endpointProblem says what is wrong with a base URL, never with its text: it may hold a password.
func endpointProblem(text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return words["targets.endpoints"]
	case u.User != nil:
		return "must not contain a user or password: use api_key or headers with env:NAME or file:PATH"
	case u.RawQuery != "" || u.ForceQuery:
		return "must not contain a query (?...)"
	case strings.Contains(text, "#"):
		return "must not contain a fragment (#...)"
	case !validPort(u):
		return "must have a port from 1 to 65535, or none"
	}
	for _, suffix := range apiPaths {
		if strings.HasSuffix(baseURL(u.Path), suffix) {
			return "must end before " + suffix + ", which Spate adds"
		}
	}
	return ""
}

func validPort(u *url.URL) bool {
	if u.Port() == "" {
		return !strings.HasSuffix(u.Host, ":")
	}
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return err == nil && port > 0
}

// ownHeaders are those, in canonical form, that the client sets.
var ownHeaders = []string{"Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Trailer", "Upgrade", "X-Request-Id"}

// secretWords stand in the names of headers that carry secrets, such as Authorization, X-Api-Key and Set-Cookie. A plan is kept
// with its results, so a header that is taken for one by mistake does less harm than one that is missed.
var secretWords = []string{"key", "token", "secret", "auth", "password", "cookie"}

func namesSecret(header string) bool {
	header = strings.ToLower(header)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(header, word) })
}

func (c *checker) headers(path string, t *spatev1.Target) {
	seen := make(map[string]string)
	for _, name := range sortedKeys(t.GetHeaders()) {
		canonical := http.CanonicalHeaderKey(name)
		at := path + ".headers[" + strconv.Quote(name) + "]"
		if problem := headerProblem(name, t.GetHeaders()[name]); problem != "" {
			c.wrong(at, problem)
		} else if seen[canonical] != "" {
			c.wrong(at, fmt.Sprintf("is the same header as %q: case makes no difference", seen[canonical]))
		} else if canonical == or(factsOf(t).auth, "Authorization") && t.GetApiKey() != "" {
			c.wrong(at, "is what api_key sends, too: give one of them")
		}
		seen[canonical] = name
	}
}

// headerProblem says what is wrong with a header, never with its value.
func headerProblem(name, value string) string {
	canonical := http.CanonicalHeaderKey(name)
	switch {
	case !validHeaderName(name):
		return "is not a valid header name"
	case slices.Contains(ownHeaders, canonical):
		return "is set by Spate and cannot be given"
	case IsReference(value):
		return referenceProblem(value)
	case canonical == "Host" && !validHost(value):
		return "must be a host such as llm.example.com, or a host with a port"
	case namesSecret(name):
		return "carries a secret, by its name: its value must be env:NAME or file:PATH"
	case !validHeaderValue(value):
		return "has a value with line breaks or control characters"
	}
	return ""
}

// validHost says whether a request can ask for a host, with a port or without.
func validHost(value string) bool {
	u, err := url.Parse("http://" + value)
	return err == nil && u.Hostname() != "" && u.Host == value && validPort(u)
}

func validHeaderName(name string) bool {
	for i := range len(name) {
		b := name[i]
		alphanumeric := b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z'
		if !alphanumeric && !strings.ContainsRune("!#$%&'*+-.^_`|~", rune(b)) {
			return false
		}
	}
	return name != ""
}

func validHeaderValue(value string) bool {
	for i := range len(value) {
		if b := value[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// ownFields of a request body follow from the plan's other fields.
var ownFields = map[string]string{
	"stream":         "Spate always streams",
	"stream_options": "Spate asks for usage in the stream",
	"messages":       workloadsPrompt,
	"prompt":         workloadsPrompt,
	"model":          "give it as the target's model",
	"max_tokens":     workloadsLength,
}

// secretFields of a request body, in lower case, are likely secrets. There are no references in a body.
var secretFields = []string{"api_key", "apikey", "token", "secret", "password"}

func holdsSecret(field string) bool { return slices.Contains(secretFields, strings.ToLower(field)) }

func (c *checker) body(path string, t *spatev1.Target) {
	for _, name := range sortedKeys(t.GetBody().GetFields()) {
		if holdsSecret(name) {
			c.wrong(path+"["+strconv.Quote(name)+"]", "carries a secret, by its name, and plans are kept with results: "+
				"send it by api_key or in a header, as env:NAME or file:PATH")
		}
		if why := factsOf(t).ownField(name); why != "" {
			c.wrong(path+"["+strconv.Quote(name)+"]", "cannot be given: "+why)
		}
	}
	c.options(path, t)
}
