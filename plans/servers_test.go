package plans

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestBesideEndpoint(t *testing.T) {
	for _, c := range []struct {
		endpoint, address string
		want              bool
	}{
		{"http://h:8000", "https://H:8002/metrics", true}, {"http://[::1]:1", "http://[::1]:2/m", true},
		{"http://h", "http://i/metrics", false},
		{"http://h", "://", false}, {"/a", "/b", false},
	} {
		target := &spatev1.Target{Endpoints: []string{"http://other", c.endpoint}}
		if BesideEndpoint(target, c.address) != c.want {
			t.Errorf("%s and %s: not %v", c.endpoint, c.address, c.want)
		}
	}
}

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
			!strings.Contains(err.Error(), "connection.ca: goes with https:// endpoints, or https:// urls") {
			t.Errorf("%s with %q: %v", c.endpoint, c.metrics, err)
		}
	}
}

// TestServersAreReadUnlessAPlanSaysNever checks where and when server metrics are read.
func TestServersAreReadUnlessAPlanSaysNever(t *testing.T) {
	own := []string{"http://h:1/metrics", "http://h:2/m/metrics"}
	for metrics, want := range map[string]struct {
		sources []string
		seconds bool
		named   bool
	}{
		"":                              {own, false, false},
		"server_metrics: {}":            {own, true, true},
		"server_metrics: {read: ends}":  {own, false, true},
		"server_metrics: {read: never}": {nil, false, true},
		"server_metrics: {read: ends, urls: ['http://i:1/other']}": {[]string{"http://i:1/other"}, false, true},
	} {
		p := load(t, "name: p\ntargets: [{name: t, endpoints: ['http://h:1', 'http://h:2/m/'], model: m, "+metrics+
			"}]\nworkloads: [{random: {isl: 1, osl: 1}}]\nloads: [{rate: [1], duration: 1s}]\n")
		target := p.Outline()[0].GetTarget()
		if got := ServerSources(target); !slices.Equal(got, want.sources) {
			t.Errorf("%s: read at %v", metrics, got)
		}
		if ReadsEachSecond(target) != want.seconds || NamesServerMetrics(target) != want.named {
			t.Errorf("%s: each second %v, named %v", metrics, ReadsEachSecond(target), NamesServerMetrics(target))
		}
	}
	_, err := Load("plan.yaml",
		[]byte("name: p\ntargets: [{name: t, endpoints: ['http://h:1'], model: m, server_metrics: {read: never, names: [a]}}]\n"+
			"workloads: [{random: {isl: 1, osl: 1}}]\nloads: [{rate: [1], duration: 1s}]\n"), Options{})
	if err == nil || !strings.Contains(err.Error(), "server_metrics.read: never does not go with urls or names") {
		t.Errorf("never with names: %v", err)
	}
}
