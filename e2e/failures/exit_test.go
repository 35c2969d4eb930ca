package failures

import (
	"strings"
	"testing"

	"github.com/spate-load/spate/aggregate/trust"
	"github.com/spate-load/spate/e2e/programs"
)

// spoiltPlan has a stage in which three of ten requests fail, so its measurement is invalid.
const spoiltPlan = `
name: spoilt
targets:
  - {name: server, simulator: {decode_step: 1ms, error_share: 0.3}}
workloads:
  - random: {isl: 10, osl: 4}
loads:
  - {concurrency: [2], requests: 60}
`

// lostSearch has too few probes to find an answer.
const lostSearch = `
name: lost
targets:
  - {name: server, simulator: {decode_step: 1ms}}
workloads:
  - random: {isl: 10, osl: 4}
loads:
  - search: {concurrency: {from: 1, to: 64}, keep: {latencies: [{metric: e2e, percentile: 50, at_most: 1h}]}, probes: 2}
    requests: 20
`

// The exit code tells a script whether the numbers of a run can be used.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		plan string
		args []string
		code int
		says string
	}{
		"invalid, by default": {spoiltPlan, []string{"--fail-on", "invalid"}, 3,
			"but its verdict is INVALID; "},
		"invalid, never mind": {spoiltPlan, []string{"--fail-on", "never"}, 0, "Run spoilt"},
		"no answer": {lostSearch, []string{"--fail-on", "never"}, 3,
			"the search of server, 10:4 has no complete answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := programs.RunPlan(t, tc.plan, tc.args...)
			r.MustExit(tc.code)
			if !strings.Contains(r.Printed(), tc.says) {
				t.Errorf("it does not say %q:\n%s", tc.says, r.Printed())
			}
			if v := r.Results().Run.Verdict; tc.plan == spoiltPlan && (v == nil || *v != trust.Invalid) {
				t.Errorf("verdict %v", v)
			}
		})
	}
}
