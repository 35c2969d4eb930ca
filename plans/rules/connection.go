package rules

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/servermetrics"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// connection checks a target's connection fields and its timeouts.
func (c *checker) connection(path string, t *spatev1.Target) {
	target := strings.TrimSuffix(path, ".connection")
	c.waits(target, t)
	n := t.GetConnection()
	switch {
	case n == nil:
	case !c.Has(target+".endpoints") && c.Has(target+".simulator"):
		c.simulatedConnection(path)
	default:
		if u, err := url.Parse(n.GetProxy()); err == nil && n.GetProxy() != "" && !naming.ValidPort(u) {
			c.wrong(path+".proxy", "must have a port from 1 to 65535, or none")
		}
		c.withoutTLS(path, t)
	}
}

// waits checks the timeouts of a stream.
func (c *checker) waits(target string, t *spatev1.Target) {
	for field, limit := range map[string]*durationpb.Duration{"first_token_timeout": t.GetFirstTokenTimeout(),
		"gap_timeout": t.GetGapTimeout()} {
		if whole := cmp.Or(t.GetRequestTimeout().AsDuration(), defaults.RequestTimeout); limit.AsDuration() > whole {
			c.wrong(target+"."+field, "must not be longer than request_timeout, which ends the request earlier")
		}
	}
}

// simulatedConnection refuses fields that the simulator does not support: it serves HTTP/1.1 on loopback.
func (c *checker) simulatedConnection(path string) {
	for _, field := range []string{"http", "proxy", "proxy_auth", "ca", "certificate", "key", "server_name",
		"insecure_skip_verify"} {
		if c.Has(path + "." + field) {
			c.wrong(path+"."+field, "works only with endpoints: the simulator is reached on loopback, by HTTP/1.1")
		}
	}
}

// withoutTLS refuses TLS fields if nothing that uses the connection is reached over TLS: neither an endpoint, nor a
// metrics address on the host of an endpoint.
func (c *checker) withoutTLS(path string, t *spatev1.Target) {
	if slices.ContainsFunc(t.GetEndpoints(), overTLS) {
		return
	}
	if slices.ContainsFunc(servermetrics.Sources(t), func(source string) bool {
		return overTLS(source) &&
			servermetrics.OnEndpointHost(t, source)
	}) {
		return
	}
	for _, field := range []string{"ca", "certificate", "key", "server_name", "insecure_skip_verify"} {
		if c.Has(path + "." + field) {
			c.wrong(path+"."+field, "works only with https:// endpoints, or https:// urls of server_metrics on their hosts: the target has none")
		}
	}
}

// overTLS reports whether an address is reached over TLS.
func overTLS(address string) bool { return strings.HasPrefix(address, "https://") }
