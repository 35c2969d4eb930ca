package plans

import (
	"fmt"
	"strings"
	"testing"
)

// TestCAOfMetrics checks when a connection's CA is allowed: with an endpoint, or with metrics on the host of an
// endpoint, that is reached over TLS.
func TestCAOfMetrics(t *testing.T) {
	for _, c := range []struct {
		endpoint, metrics string
		refused           bool
	}{
		{"https://h:8000", "", false},
		{"https://h:8000", "server_metrics: {urls: ['http://h:8081/metrics']}", false},
		{"http://h:8000", "server_metrics: {urls: ['http://h:8081/metrics', 'https://h:8443/metrics']}", false},
		{"http://h:8000", "", true},
		{"http://h:8000", "server_metrics: {}", true},
		{"http://h:8000", "server_metrics: {urls: ['http://h:8443/metrics']}", true},
		// on another host, where the connection does not apply
		{"http://h:8000", "server_metrics: {urls: ['https://other:8443/metrics']}", true},
	} {
		plan := fmt.Sprintf(`name: p
targets:
  - name: t
    endpoints: [%q]
    model: m
    connection: {ca: "file:ca.pem"}
    %s
workloads: [{random: {isl: 1, osl: 1}}]
loads: [{rate: [1], duration: 1s}]
`, c.endpoint, c.metrics)
		_, err := Load("plan.yaml", []byte(plan), Options{})
		if refused := err != nil; refused != c.refused || refused &&
			!strings.Contains(err.Error(), "connection.ca: works only with https:// endpoints, or https:// urls") {
			t.Errorf("%s with %q: %v", c.endpoint, c.metrics, err)
		}
	}
}
