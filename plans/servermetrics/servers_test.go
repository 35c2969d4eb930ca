package servermetrics_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestOnEndpointHost(t *testing.T) {
	for _, c := range []struct {
		endpoint, address string
		want              bool
	}{
		{"http://h:8000", "https://H:8002/metrics", true}, {"http://[::1]:1", "http://[::1]:2/m", true},
		{"http://h", "http://i/metrics", false},
		{"http://h", "://", false}, {"/a", "/b", false},
	} {
		target := &spatev1.Target{Endpoints: []string{"http://other", c.endpoint}}
		if servermetrics.OnEndpointHost(target, c.address) != c.want {
			t.Errorf("%s and %s: not %v", c.endpoint, c.address, c.want)
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
		p, err := plans.Load("p", []byte("name: p\ntargets: [{name: t, endpoints: ['http://h:1', 'http://h:2/m/'], model: m, "+metrics+
			"}]\nworkloads: [{random: {isl: 1, osl: 1}}]\nloads: [{rate: [1], duration: 1s}]\n"), plans.Options{})
		if err != nil {
			t.Fatal(err)
		}
		target := p.Outline()[0].GetTarget()
		if got := servermetrics.Sources(target); !slices.Equal(got, want.sources) {
			t.Errorf("%s: read at %v", metrics, got)
		}
		if servermetrics.EachSecond(target) != want.seconds || servermetrics.Asked(target) != want.named {
			t.Errorf("%s: each second %v, named %v", metrics, servermetrics.EachSecond(target), servermetrics.Asked(target))
		}
	}
	_, err := plans.Load("plan.yaml",
		[]byte("name: p\ntargets: [{name: t, endpoints: ['http://h:1'], model: m, server_metrics: {read: never, names: [a]}}]\n"+
			"workloads: [{random: {isl: 1, osl: 1}}]\nloads: [{rate: [1], duration: 1s}]\n"), plans.Options{})
	if err == nil || !strings.Contains(err.Error(), "server_metrics.read: never does not work with urls, gpu_urls or names") {
		t.Errorf("never with names: %v", err)
	}
}
