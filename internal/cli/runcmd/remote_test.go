package runcmd

import (
	"fmt"
	"strings"
	"testing"
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
