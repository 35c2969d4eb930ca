package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/process"
)

// What a stranger types is accepted: host:port, a trailing /v1, no model if there is only one, a value without
// brackets.
func TestWhatAStrangerTypes(t *testing.T) {
	t.Parallel()
	url := programs.Simulate(t, 1).URLs[0]
	for name, target := range map[string]string{"host:port": strings.TrimPrefix(url, "http://"), "/v1": url + "/v1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out := filepath.Join(t.TempDir(), "run")
			r := process.Start(t, programs.Built.Spate, "run", "--target", target, "--concurrency", "2", "--requests", "10",
				"--isl", "10", "--osl", "2", "--out", out)
			r.MustExit(0)
			if text, err := os.ReadFile(filepath.Join(out, "plan.yaml")); err != nil ||
				!strings.Contains(string(text), "model: ") {
				t.Errorf("%v; the plan that is kept has no model:\n%s", err, text)
			}
		})
	}
}

// Spate does not guess between several models, and finds files beside the plan.
func TestModelsAreNotGuessed(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"small"},{"id":"large"}]}`)
	}))
	t.Cleanup(server.Close)
	text := fmt.Sprintf("name: p\ntargets:\n  - {name: a, endpoints: %q}\nworkloads:\n  - jsonl: {path: rows.jsonl, osl: 2}\nloads:\n  - {concurrency: 1, requests: 2}\n", server.URL)
	plan := programs.PlanIn(t, text, map[string]string{"rows.jsonl": `{"prompt": "one two"}` + "\n"})
	process.Start(t, programs.Built.Spate, "plan", "validate", plan).MustExit(0)
	r := process.Start(t, programs.Built.Spate, "run", plan)
	r.MustExit(2)
	if want := `plan.yaml:3:5: targets[0]: has no model, and ` + server.URL +
		` lists 2 ("small", "large"): give the name`; !strings.Contains(r.Printed(), want) {
		t.Errorf("it does not say %q:\n%s", want, r.Printed())
	}
}
