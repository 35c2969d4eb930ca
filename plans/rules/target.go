package rules

import (
	"fmt"
	"net/url"
	"strings"
	"unicode"

	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func (c *checker) target(path string, t *spatev1.Target, simulation, discover bool) {
	endpoints, simulated := c.Has(path+".endpoints"), c.Has(path+".simulator")
	switch {
	case !endpoints && !simulated && !c.Has(path+".kubernetes.service"):
		c.absent(path, "has neither endpoints nor simulator: give one of them, or kubernetes with a service", "endpoints",
			"simulator")
	case !endpoints && !simulation && !discover && c.Has(path+".kubernetes.service"):
		c.absent(path, "has no endpoints: spate run looks them up by kubernetes, and writes them into the plan that it submits",
			"endpoints")
	case endpoints && t.GetModel() == "" && !c.Has(path+".model") && !discover:
		c.absent(path, "has no model: give the name under which the endpoints serve it", "model")
	case c.Has(path+".model") && t.GetModel() == "":
		c.wrong(path+".model", "must not be empty: give the name under which the endpoints serve it")
	}
	c.api(path, t)
	c.wholeTarget(path, t)
	c.template(path, t, discover)
	c.endpoints(path+".endpoints", t.GetEndpoints())
	c.headers(path, t)
	c.body(path+".body", t)
	c.serverMetrics(path+".server_metrics", t)
	c.connection(path+".connection", t)
}

func (c *checker) endpoints(path string, urls []string) {
	seen := make(map[string]bool)
	for i, text := range urls {
		at := fmt.Sprintf("%s[%d]", path, i)
		if problem := endpointProblem(text); problem != "" {
			c.wrong(at, problem)
			continue
		}
		base := naming.BaseURL(text)
		if seen[base] {
			c.wrong(at, "is listed twice: a trailing slash or /v1 does not matter")
		}
		seen[base] = true
	}
}

// apiPaths returns the paths that Spate adds to an endpoint's base URL, up to a model's name.
func apiPaths() (paths []string) {
	for _, a := range registry.All {
		for _, whole := range []string{a.Path, a.WholePath} {
			if path, _, _ := strings.Cut(whole, "/models/"); path != "" {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// endpointProblem returns what is wrong with a base URL, or "" if nothing is. It never repeats the URL, which may hold
// a password.
func endpointProblem(text string) string {
	u, err := url.Parse(naming.BaseURL(text))
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" ||
		strings.ContainsFunc(text, unicode.IsSpace) {
		return "must be a base URL like http://localhost:8000, or host:port"
	}
	if problem := addressProblem(u, text, "use api_key or headers with env:NAME or file:PATH"); problem != "" {
		return problem
	}
	for _, suffix := range apiPaths() {
		if strings.HasSuffix(naming.BaseURL(u.Path), suffix) {
			return "must end before " + suffix + ", which Spate adds"
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
	case u.RawQuery != "" || u.ForceQuery:
		return "must not contain a query (?...)"
	case strings.Contains(text, "#"):
		return "must not contain a fragment (#...)"
	case !naming.ValidPort(u):
		return "must have a port from 1 to 65535, or none"
	}
	return ""
}
