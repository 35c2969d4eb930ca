package rules

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"

	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// serverMetrics checks where server metrics are scraped.
func (c *checker) serverMetrics(path string, t *spatev1.Target) {
	m := t.GetServerMetrics()
	if m == nil {
		return
	}
	if m.GetRead() == servermetrics.ReadNever {
		c.readNever(path, m)
		return
	}
	if n := len(t.GetEndpoints()); len(m.GetUrls()) == 0 && n > servermetrics.MaxSources {
		c.wrong(path, fmt.Sprintf("metrics are read from at most %d servers, and the target has %d endpoints: name the servers by urls", servermetrics.MaxSources, n))
	}
	c.metricsURLs(path+".urls", m.GetUrls())
	c.metricsURLs(path+".gpu_urls", m.GetGpuUrls())
	for url := range m.GetRoles() {
		if !slices.Contains(m.GetUrls(), url) {
			c.wrong(path+".roles", "has a role for "+strconv.Quote(url)+", which is not among urls")
		}
	}
}

// metricsURLs checks addresses of metrics.
func (c *checker) metricsURLs(path string, urls []string) {
	for i, text := range urls {
		if problem := metricsProblem(text); problem != "" {
			c.wrong(fmt.Sprintf("%s[%d]", path, i), problem)
		}
	}
}

// readNever refuses names and addresses of metrics that are never read.
func (c *checker) readNever(path string, m *spatev1.ServerMetrics) {
	if len(m.GetUrls())+len(m.GetGpuUrls())+len(m.GetNames()) > 0 {
		c.wrong(path+".read", "never does not work with urls, gpu_urls or names: leave them out, or read seconds or ends")
	}
}

// metricsProblem returns what is wrong with an address of metrics, or "" if nothing is. It never repeats the address,
// which may hold a password.
func metricsProblem(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return "must be a URL like http://localhost:8000/metrics"
	}
	return addressProblem(u, text, "api_key and headers go to the hosts of the target's endpoints")
}
