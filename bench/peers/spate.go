package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// startSpate runs one embedded agent with a coordinator and everything else in one process, as `spate run` does on a
// laptop.
//
// If each stream has one request, each request opens its own connection, like those of the other tools. Otherwise Spate
// would open the connections of a closed loop before its start, and its TTFT would measure something else.
func startSpate(j Job) (Command, error) {
	reuse := "keep"
	if j.Requests == j.Streams {
		reuse = "new"
	}
	plan := fmt.Sprintf(`name: peers
targets: [{name: simulator, endpoints: ["%s"], model: m, api: completions, connection: {reuse: %s}}]
workloads: [{random: {isl: %d, osl: %d}}]
loads: [{concurrency: [%d], requests: %d}]
`, j.URL, reuse, j.ISL, j.OSL, j.Streams, j.Requests)
	path := filepath.Join(j.Dir, "plan.yaml")
	if err := os.WriteFile(path, []byte(plan), 0o600); err != nil {
		return Command{}, err
	}
	return Command{Args: []string{j.Spate, "run", path, "--agents", "1", "--records", "none", "--no-progress", "--out",
		filepath.Join(j.Dir, "out")}}, nil
}

// spateDistribution is a distribution in results.json.
type spateDistribution struct {
	Mean, P50, P99 *float64
}

func (d *spateDistribution) summary() Summary {
	if d == nil {
		return Summary{}
	}
	return Summary(*d)
}

// readSpate reads results.json, see docs/results.md. The definitions are ours.
func readSpate(dir string) (Report, error) {
	var results struct {
		Stages []struct {
			Requests struct{ Completed, Failed int }
			TTFT     *spateDistribution `json:"ttft_ms"`
			ITL      *spateDistribution `json:"itl_ms"`
			TPOT     *spateDistribution `json:"tpot_ms"`
			Connect  *spateDistribution `json:"connect_ms"`
		}
	}
	if err := readJSON(&results, dir, "out", "results.json"); err != nil {
		return Report{}, err
	}
	if len(results.Stages) != 1 {
		return Report{}, fmt.Errorf("spate: %d stages, want 1", len(results.Stages))
	}
	s := results.Stages[0]
	return Report{
		TTFT: s.TTFT.summary(), ITL: s.ITL.summary(), TPOT: s.TPOT.summary(), Connect: s.Connect.summary(),
		Requests: s.Requests.Completed, Failed: s.Requests.Failed,
	}, nil
}
