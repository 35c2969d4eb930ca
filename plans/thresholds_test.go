package plans

import (
	"slices"
	"strings"
	"testing"
)

const judgedPlan = `name: p
targets:
  - {name: a, endpoints: [localhost:80], model: m}
  - {name: b, endpoints: [localhost:81], model: m}
workloads:
  - random: {isl: 10, osl: 10}
loads:
  - {concurrency: [8], requests: 5}
  - {rate: [2], requests: 5}
thresholds:
  - {that: ttft_ms.p99 < 500, target: a}
  - ttft_ms.p99 < 500 # of all
  - {that: ttft_ms.p99 < 500, load: 2 req/s poisson}
  - {that: ttft_ms.p99 < 500, load: concurrency 8}
`

// conditions returns the thresholds of a plan, each with what it is for.
func conditions(t *testing.T, source []byte) (found []string) {
	t.Helper()
	list, err := Thresholds(source)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		found = append(found, c.GetThat()+"|"+c.GetTarget()+"|"+c.GetLoad())
	}
	return found
}

// TestThresholdsOfPlans: a condition alone is a threshold, flags add more, and those of targets that are left out go.
func TestThresholdsOfPlans(t *testing.T) {
	load(t, judgedPlan)
	p := changed(t, judgedPlan, Changes{Only: []string{"b"}, Thresholds: []string{`model = "m, n"`}, Simulate: 10})
	want := []string{"ttft_ms.p99 < 500||", "ttft_ms.p99 < 500||20 req/s poisson", "ttft_ms.p99 < 500||concurrency 8",
		`model = "m, n"||`}
	if got := conditions(t, p.Source()); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	short, _, _ := strings.Cut(judgedPlan, "  - ttft_ms")
	only := changed(t, short, Changes{Only: []string{"b"}})
	if got := conditions(t, only.Source()); got != nil {
		t.Errorf("of no target that is left: %q", got)
	}
	if got := conditions(t, nil); got != nil {
		t.Errorf("of no plan: %q", got)
	}
}
