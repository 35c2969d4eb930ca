package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/plans"
)

func TestWriteBeside(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, "results.json")
	write(t, results, `{"stages":[
		{"target":"a","workload":"10:20","load":{"concurrency":4,"rate":null},"trust":{"verdict":"SUSPECT","checks":[
			{"name":"osl","verdict":"SUSPECT","words":"outputs were short"},{"name":"isl","verdict":"VALID","words":"fine"}]},
		 "output_token_throughput":1000,"ttft_ms":{"mean":10,"p99":20},"tpot_ms":{"mean":2,"p99":3},"e2e_ms":null,"osl_tokens":{"seen":{"mean":18}}},
		{"target":"a","workload":"10:20","load":{"concurrency":null,"rate":8},"trust":{"verdict":"VALID","checks":[]},
		 "output_token_throughput":500,"ttft_ms":{"mean":1,"p99":2},"tpot_ms":{"mean":0.5,"p99":1},"e2e_ms":null,"osl_tokens":{"seen":{"mean":20}}}]}`)
	yaml := filepath.Join(dir, "seeds.yaml")
	write(t, yaml, "- {source: x, plan: p, target: a, columns: [tokens_per_second, ttft, tpot_p99], tables: [{workload: '10:20', rows: [[4, 80, 100, 20], [0.8, 50, 12.5, 9]]}]}")
	stages, err := readStages(results)
	if err != nil {
		t.Fatal(err)
	}
	seeds, err := readSeeds(yaml)
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := writeBeside(&page, stages, seeds, func(string) float64 { return 10 }); err != nil {
		t.Fatal(err)
	}
	const want = `
All values are the plan's: what ran faster is converted back. In brackets: how far from the published number.

### a, 10:20

| Load | Verdict | OSL | Output (tok/s) | Mean TTFT (ms) | P99 TPOT (ms) |
|:-:|:-:|:-:|:-:|:-:|:-:|
| 4 | SUSPECT | 18 | 100.0 (+25 %) | 100.0 (+0 %) | 30.00 (+50 %) |
| 0.8 | VALID | 20 | 50.00 (+0 %) | 10.00 (-20 %) | 10.00 (+11 %) |

### Verdicts

- a, 10:20, 4: SUSPECT: outputs were short
`
	if diff := cmp.Diff(want, page.String()); diff != "" {
		t.Error(diff)
	}
	if err := writeBeside(&page, stages, seeds, func(string) float64 { return 1 }); err == nil ||
		!strings.Contains(err.Error(), "no stage") {
		t.Errorf("a load that was not run: %v", err)
	}
	if _, err := stages[0].value("e2e", 1); err == nil {
		t.Error("what was not measured has a value")
	}
}

func TestCopyTables(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.md")
	write(t, path, "# Run x\n\n- Plan: p\n\n## a, b\n\n| 1 |\n\n## Trust\n\nStages: 1 VALID.\n\n## Requests\n\n| 2 |\n")
	var page strings.Builder
	if err := copyTables(&page, path); err != nil {
		t.Fatal(err)
	}
	if want := "\n### a, b\n\n| 1 |\n\n### Trust\n\nStages: 1 VALID.\n"; page.String() != want {
		t.Error(cmp.Diff(want, page.String()))
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A page without published numbers names the plan that it was made from, which must be the one that ships today.
// TestExamplesAreCurrent of the simulator checks the other pages, by their values.
func TestPagesAreOfTheShippedPlans(t *testing.T) {
	seeds, err := readSeeds("../../simulator/fits/testdata/seeds.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range plans.Shipped() {
		if slices.ContainsFunc(seeds, func(d seed) bool { return d.Plan == name }) {
			continue
		}
		mark, err := fingerprint(name)
		if err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join("..", "..", "docs", "examples", name+".md"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page), "\n<!-- plan "+mark+" -->\n") {
			t.Errorf("the page of %s is of another plan than the one that ships: make examples PLANS=%s", name, name)
		}
	}
}
