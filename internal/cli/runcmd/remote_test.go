package runcmd

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spate-load/spate/coordinator"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestParseHosts(t *testing.T) {
	hosts, err := parseHosts([]string{"eu=user@10.0.0.1, user@gpu.example.com", "us=[::1]", "10.0.0.1", "10.0.0.1"})
	var got []string
	for _, h := range hosts {
		got = append(got, fmt.Sprintf("%s/%s/%s", h.name, h.region, h.login))
	}
	regions := byRegion(hosts)
	if want := "10-0-0-1/eu/user@10.0.0.1 gpu-example-com/eu/user@gpu.example.com 1/us/[::1] 10-0-0-1-2//10.0.0.1 10-0-0-1-3//10.0.0.1"; err != nil ||
		strings.Join(got, " ") != want || fmt.Sprint(regions) != "[{eu 2} {us 1} { 2}]" {
		t.Errorf("%s, %v, %v", got, regions, err)
	}
	for _, bad := range []string{"", "eu=", "eu=a,,b", "a b", "-oProxyCommand=x", "eu=-x", "a;b", "$(x)", "u@", "é é=a", "a'b"} {
		if hosts, err := parseHosts([]string{bad}); err == nil || !strings.HasPrefix(err.Error(), "--on ") {
			t.Errorf("%q: %v, %v", bad, hosts, err)
		}
	}
}

// TestElsewhere: a run whose agents were on other hosts does not go on from here unless somebody says so.
func TestElsewhere(t *testing.T) {
	here, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for want, hosts := range map[string][]string{"": {here, here, ""}, "eu-1, us-1": {"us-1", "eu-1", "us-1", here}} {
		var had []*spatev1.AgentInfo
		for _, h := range hosts {
			had = append(had, &spatev1.AgentInfo{Host: h})
		}
		if got := elsewhere(had); got != want {
			t.Errorf("%q: %q, want %q", hosts, got, want)
		}
	}
	f := resumeFlags{}
	if _, err := f.check(nil, &coordinator.Interrupted{Agents: []*spatev1.AgentInfo{{Host: "eu-1"}}}); err == nil ||
		!strings.Contains(err.Error(), "were on eu-1 and not on this machine: give --on") {
		t.Error(err)
	}
}
