package failures

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

// refusing starts a server that answers each request to generate in the same way, and counts these requests.
func refusing(t *testing.T, status int, kind, body string) (url string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			asked.Add(1)
		}
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

const hopelessPlan = `
name: hopeless
targets:
  - {name: bad, endpoints: [%q], model: m}
  - {name: well, endpoints: [%q], model: m}
workloads:
  - random: {isl: 10, osl: 2}
loads:
  - concurrency: [4, 8]
    requests: 400
`

// A target at which every request fails in the same way gets few requests, and the other targets get all of theirs.
func TestHopelessTargetsFailFast(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status           int
		kind, body, says string
	}{
		"wrong key":  {401, "application/json", `{"error":{"message":"Unauthorized"}}`, "Unauthorized"},
		"no model":   {404, "application/json", `{"error":{"message":"The model m does not exist"}}`, "does not exist"},
		"a gateway":  {502, "text/html", "<html><body>Bad Gateway</body></html>", "502"},
		"a web page": {200, "text/html", "<html><body>Hello</body></html>", "invalid line in the event stream"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, asked := refusing(t, c.status, c.kind, c.body)
			r := programs.RunPlan(t, fmt.Sprintf(hopelessPlan, url, programs.Simulate(t, 1).URLs[0]))
			r.MustExit(3)
			if n := asked.Load(); n > 100 {
				t.Errorf("%d requests were sent to a server that takes none", n)
			}
			if said := r.Printed(); !strings.Contains(said, "target bad is hopeless") || !strings.Contains(said, c.says) {
				t.Errorf("it does not say why:\n%s", said)
			}
			for _, s := range r.Results().Stages {
				if s.Target == "well" && s.Requests.Completed != 400 {
					t.Errorf("stage %d: %+v", s.Index, s.Requests)
				}
			}
		})
	}
}

// fail_fast: false sends the whole load.
func TestNoFailFast(t *testing.T) {
	t.Parallel()
	url, asked := refusing(t, 401, "application/json", "{}")
	r := programs.RunPlan(t, fmt.Sprintf(hopelessPlan, url, programs.Simulate(t, 1).URLs[0]), "--set", "fail_fast=false")
	r.MustExit(0) // --fail-on never
	if n := asked.Load(); n < 800 {
		t.Errorf("%d requests, want 2 stages of 400", n)
	}
}
