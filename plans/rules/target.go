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
	"unicode"

	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/secret"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func (c *checker) target(path string, t *spatev1.Target, simulation, discover bool) {
	if t.GetServer() != nil {
		c.server(path, t, simulation, discover)
	} else {
		c.reached(path, t, simulation, discover)
	}
	c.api(path, t, simulation || !c.Has(path+".endpoints") && c.Has(path+".simulator"))
	c.wholeTarget(path, t)
	c.template(path, t, discover)
	c.endpoints(path+".endpoints", t)
	c.headers(path, t)
	c.body(path+".body", t)
	c.serverMetrics(path+".server_metrics", t)
	c.connection(path+".connection", t)
}

// reached checks where a target is reached, and as what.
func (c *checker) reached(path string, t *spatev1.Target, simulation, discover bool) {
	endpoints, simulated := c.Has(path+".endpoints"), c.Has(path+".simulator")
	switch {
	case !endpoints && !simulated && !c.Has(path+".kubernetes.service"):
		c.absent(path, "has neither endpoints nor simulator: give one of them, or kubernetes with a service", "endpoints",
			"simulator")
	case !endpoints && !simulation && !discover && c.Has(path+".kubernetes.service"):
		c.absent(path, "has no endpoints: spate run looks them up by kubernetes, and writes them into the plan that it submits",
			"endpoints")
	case endpoints && t.GetModel() == "" && !c.Has(path+".model") && !discover && !simulation:
		c.absent(path, "has no model: give the name under which the endpoints serve it", "model")
	case c.Has(path+".model") && t.GetModel() == "":
		c.wrong(path+".model", "must not be empty: give the name under which the endpoints serve it")
	}
}

// server checks a target whose server is started for it.
func (c *checker) server(path string, t *spatev1.Target, simulation, discover bool) {
	endpoints := c.Has(path + ".endpoints")
	switch {
	case t.GetModel() == "" && !simulation:
		c.absent(path, "has no model: give the name under which its server serves it", "model")
	case !endpoints && t.GetServer().GetOn() != "":
		c.wrong(path+".server.on", "is another machine: give the endpoints at which its server is reached")
	case !endpoints && !strings.Contains(strings.Join(t.GetServer().GetStart(), " "), "{port}"):
		c.wrong(path+".server", "has no {port} in start, and the target no endpoints: give start: [vllm, serve, "+
			"MODEL, --port, \"{port}\"], or the endpoints at which it serves")
	case !endpoints && !simulation && !discover:
		c.absent(path, "has no endpoints: spate run chooses a port for its server", "endpoints")
	}
}

func (c *checker) endpoints(path string, t *spatev1.Target) {
	seen := make(map[string]bool)
	for i, text := range t.GetEndpoints() {
		at := fmt.Sprintf("%s[%d]", path, i)
		if problem := endpointProblem(text, defaults.API(t)); problem != "" {
			c.wrong(at, "%s", problem)
			continue
		}
		base := naming.BaseURL(text)
		c.refuse(seen[base], at, "is listed twice: a trailing slash or /v1 does not matter")
		seen[base] = true
	}
}

// endpointProblem returns what is wrong with a base URL, or "" if nothing is. It never repeats the URL, which may hold
// a password.
func endpointProblem(text string, a *api.API) string {
	u, err := url.Parse(naming.BaseURL(text))
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.ContainsFunc(text, unicode.IsSpace) {
		return "must be a base URL like http://localhost:8000, or host:port"
	}
	if problem := addressProblem(u, text, "use api_key or headers with env:NAME or file:PATH"); problem != "" {
		return problem
	}
	return apiProblem(u, a)
}

// apiProblem returns what in a URL does not fit the API that is asked there, or "".
func apiProblem(u *url.URL, a *api.API) string {
	for name := range u.Query() {
		if secret.HeaderName(name) || a.Query != "" {
			return "must not have " + name + " in its query: use api_key or headers with env:NAME or file:PATH"
		}
	}
	for _, other := range registry.All {
		path, _, _ := strings.Cut(other.Path, "/models/")
		if path != "" && other.Version != "" && !strings.HasSuffix(a.Path, path) &&
			strings.HasSuffix(u.Path, other.Version+path) {
			return fmt.Sprintf("ends in %s, the path of api: %s, but the target has api: %s", path, other.Name, a.Name)
		}
	}
	return ""
}

// addressProblem returns what is wrong with the parts of an address that Spate does not send to, or "". instead says
// where a password belongs.
func addressProblem(u *url.URL, text, instead string) string {
	switch {
	case u.User != nil:
		return "must not contain a user or password: " + instead
	case strings.Contains(text, "#"):
		return "must not contain a fragment (#...)"
	case !naming.ValidPort(u):
		return "must have a port from 1 to 65535, or none"
	}
	return ""
}

// connection checks a target's connection fields and its timeouts.
func (c *checker) connection(path string, t *spatev1.Target) {
	target := strings.TrimSuffix(path, ".connection")
	whole := defaults.Filled(&spatev1.Target{RequestTimeout: t.GetRequestTimeout()}).GetRequestTimeout()
	for field, limit := range map[string]*durationpb.Duration{"first_token_timeout": t.GetFirstTokenTimeout(),
		"gap_timeout": t.GetGapTimeout()} {
		c.refuse(limit.AsDuration() > whole.AsDuration(),
			target+"."+field, "must not be longer than request_timeout, which ends the request earlier")
	}
	n := t.GetConnection()
	switch {
	case n == nil:
	case !c.Has(target+".endpoints") && c.Has(target+".simulator"):
		c.without(path, "works only with endpoints: the simulator is reached on loopback, by HTTP/1.1",
			append([]string{"http", "proxy", "proxy_auth"}, tlsFields...)...)
	default:
		u, err := url.Parse(n.GetProxy())
		c.refuse(err == nil && n.GetProxy() != "" && !naming.ValidPort(u), path+".proxy",
			"must have a port from 1 to 65535, or none")
		c.withoutTLS(path, t)
	}
}

// withoutTLS refuses TLS fields if nothing that uses the connection is reached over TLS: neither an endpoint, nor a
// metrics address on the host of an endpoint.
func (c *checker) withoutTLS(path string, t *spatev1.Target) {
	metrics := func(source string) bool { return overTLS(source) && servermetrics.OnEndpointHost(t, source) }
	if slices.ContainsFunc(t.GetEndpoints(), overTLS) || slices.ContainsFunc(servermetrics.Sources(t), metrics) {
		return
	}
	c.without(path, "works only with https:// endpoints, or https:// urls of server_metrics on their hosts: the "+
		"target has none", tlsFields...)
}

// tlsFields are the fields of a connection that are about TLS.
var tlsFields = []string{"ca", "certificate", "key", "server_name", "insecure_skip_verify"}

// overTLS reports whether an address is reached over TLS.
func overTLS(address string) bool { return strings.HasPrefix(address, "https://") }

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
			c.wrong(at, "%s", problem)
		} else if seen[canonical] != "" {
			c.wrong(at, "is the same header as %q: case does not matter", seen[canonical])
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

// simulation checks that the values which a simulation multiplies stay within the limits.
func (c *checker) simulation(p *spatev1.Plan) {
	const at = "simulation.speed"
	speed := p.GetSimulation().GetSpeed()
	for i, t := range p.GetTargets() {
		own := t.GetSimulator().GetSpeed()
		c.refuse(speed > 1 && own*speed > maxSpeed, at, "times the speed of targets[%d].simulator (%s) must be at most %d",
			i, loadpoint.Number(own), maxSpeed)
	}
	for i, l := range p.GetLoads() {
		rate := largestRate(l)
		c.refuse(speed > 1 && rate*speed > maxLoad, at, "times the rate of loads[%d] (%s) must be at most %d", i,
			loadpoint.Number(rate), maxLoad)
	}
}

// maxSpeed is the schema's limit of a simulation's speed.
const maxSpeed = 10_000

func largestRate(l *spatev1.Load) float64 {
	rates := append([]float64{0, l.GetRateRange().GetTo(), l.GetSearch().GetRate().GetTo(),
		l.GetFrontier().GetRate().GetTo()}, l.GetRate()...)
	for _, p := range loadpoint.RatePhases(l) {
		rates = append(rates, p.GetFrom(), p.GetTo())
	}
	return slices.Max(rates)
}

// serverMetrics checks where server metrics are scraped.
func (c *checker) serverMetrics(path string, t *spatev1.Target) {
	m := t.GetServerMetrics()
	if m == nil {
		return
	}
	if m.GetRead() == servermetrics.ReadNever {
		c.refuse(len(m.GetUrls())+len(m.GetGpuUrls())+len(m.GetNames()) > 0, path+".read",
			"never does not work with urls, gpu_urls or names: leave them out, or read seconds or ends")
		return
	}
	n := len(t.GetEndpoints())
	c.refuse(len(m.GetUrls()) == 0 && n > servermetrics.MaxSources, path,
		"metrics are read from at most %d servers, and the target has %d endpoints: name the servers by urls",
		servermetrics.MaxSources, n)
	c.metricsURLs(path+".urls", m.GetUrls())
	c.metricsURLs(path+".gpu_urls", m.GetGpuUrls())
	for url := range m.GetRoles() {
		c.refuse(!slices.Contains(m.GetUrls(), url), path+".roles", "has a role for %s, which is not among urls",
			strconv.Quote(url))
	}
}

// metricsURLs checks addresses of metrics.
func (c *checker) metricsURLs(path string, urls []string) {
	for i, text := range urls {
		c.problem(fmt.Sprintf("%s[%d]", path, i), metricsProblem(text))
	}
}

// metricsProblem returns what is wrong with an address of metrics, or "" if nothing is. It never repeats the address,
// which may hold a password.
func metricsProblem(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "must be a URL like http://localhost:8000/metrics"
	}
	if u.RawQuery != "" || u.ForceQuery {
		return "must not contain a query (?...)"
	}
	return addressProblem(u, text, "api_key and headers go to the hosts of the target's endpoints")
}
