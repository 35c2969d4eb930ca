package runcmd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spate-load/spate/coordinator"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

func TestParseHosts(t *testing.T) {
	hosts, err := parseHosts([]string{"eu=user@10.0.0.1, user@gpu.example.com, us=[::1]", "10.0.0.1", "10.0.0.1"})
	var got []string
	for _, h := range hosts {
		got = append(got, fmt.Sprintf("%s/%s/%s", h.name, h.region, h.login))
	}
	regions := byRegion(hosts, func(h *remoteHost) string { return h.region })
	if want := "10-0-0-1/eu/user@10.0.0.1 gpu-example-com/eu/user@gpu.example.com 1/us/[::1] 10-0-0-1-2//10.0.0.1 10-0-0-1-3//10.0.0.1"; err != nil ||
		strings.Join(got, " ") != want || fmt.Sprint(regions) != "[{eu 2} {us 1} { 2}]" {
		t.Errorf("%s, %v, %v", got, regions, err)
	}
	for _, bad := range []string{"", "eu=", "eu=a,,b", "a b", "-oProxyCommand=x", "eu=-x", "a,eu=", "a,=b,c d", "a;b", "$(x)", "u@", "é é=a", "a'b"} {
		if hosts, err := parseHosts([]string{bad}); err == nil || !strings.HasPrefix(err.Error(), "--on ") {
			t.Errorf("%q: %v, %v", bad, hosts, err)
		}
	}
}

// TestHostsFile: a file of hosts has what the flag has, with labels and weights, and says in which line a mistake is.
func TestHostsFile(t *testing.T) {
	t.Chdir(t.TempDir())
	read := func(text string) ([]*remoteHost, error) {
		if err := os.WriteFile("hosts.yaml", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return parseHosts([]string{"hosts.yaml", "eu=c"})
	}
	hosts, err := read("- {ssh: u@a, region: eu, labels: {pool: big}, weight: 3}\n- ssh: b\n- kube: arn:x/prod/load?agents=2&image=i\n  region: us\n")
	if err != nil {
		t.Fatal(err)
	}
	r := &remoteHosts{labels: map[string]string{"pool": "small", "x": "y"}, probes: []string{"s:80"}}
	var got []string
	for _, h := range hosts {
		got = append(got, h.login+": "+strings.Join(r.arguments(h, "--coordinator=unix:/s", h.name, "1s"), " "))
	}
	const common = ": agent --log-level=warn --coordinator=unix:/s --name="
	want := []string{
		"u@a" + common + "a --region=eu --until-alone=1s --label=pool=big --label=x=y --weight=3 --probe=s:80",
		"b" + common + "b --region= --until-alone=1s --label=pool=small --label=x=y --probe=s:80",
		"kube:arn:x/prod/load" + common + "kube-arn-x-prod-load-0 --region=us --until-alone=1s --label=pool=small --label=x=y --probe=s:80",
		"kube:arn:x/prod/load" + common + "kube-arn-x-prod-load-1 --region=us --until-alone=1s --label=pool=small --label=x=y --probe=s:80",
		"c" + common + "c --region=eu --until-alone=1s --label=pool=small --label=x=y --probe=s:80",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	if args := (&remoteHosts{}).arguments(hosts[0], "", "", ""); !slices.Contains(args, "--label=pool=big") { // the plan has none
		t.Error(args)
	}
	for text, want := range map[string]string{
		"":                                "it names no host: want a list",
		"hosts: [a]":                      "line 1: cannot unmarshal !!map",
		"- ssh: a\n- {ssh: b, x: 1}":      "line 2: field x not found",
		"- ssh: a\n- ssh: b c":            `hosts.yaml:2: "b c" is not a host`,
		"- ssh: a\n  kube: b/c":           "hosts.yaml:2: it has two of ssh, kube and slurm",
		"- region: eu":                    `"" is not a host`,
		"- {ssh: a, region: 'e f'}":       `hosts.yaml:1: "e f" is not the name of a region`,
		"- {ssh: a, labels: {region: x}}": "hosts.yaml:1: labels: \"region\": give region: beside labels",
		"- {ssh: a, labels: {p: ' '}}":    "hosts.yaml:1: labels: \"p\": the value of p must be",
		"- {ssh: a, weight: -1}":          "line 1: cannot unmarshal",
		"- ssh: a\n---\n- ssh: b":         "a second document",
	} {
		if _, err := read(text); err == nil || !strings.HasPrefix(err.Error(), "--on hosts.yaml") || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if _, err := parseHosts([]string{"none.yml"}); err == nil || !strings.Contains(err.Error(), "none.yml") {
		t.Error(err)
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

// TestSSHThatWouldAsk: where ssh would have asked something, the error says what to do.
func TestSSHThatWouldAsk(t *testing.T) {
	host := &sshHost{login: "user@eu1"}
	for said, cured := range map[string]bool{
		"user@eu1: Permission denied (publickey,keyboard-interactive).": true, "Host key verification failed.": true,
		"ssh: connect to host eu1 port 22: Connection refused": false, "sh: /tmp/x: Permission denied": false,
	} {
		if got := host.withCure(said); (got == said+" `ssh user@eu1` must work without a question") != cured ||
			!cured && got != said {
			t.Errorf("%q", got)
		}
	}
}
