package mixtures

import (
	"fmt"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-load/spate/e2e/programs"
)

// mixed has parts of each kind, with adapters and limits of their own.
const mixed = `
name: mixed
seed: 3
targets:
  - name: simulated
    model: base
    simulator: {endpoints: 2, decode_step: 1ms}
workloads:
  - name: production
    mix:
      parts:
        - {weight: 0.6, workload: {name: chat, random: {isl: 40, osl: 4}}, slo: {ttft: 10s}}
        - weight: 0.3
          workload: {name: talks, sessions: {turns: 2, isl: 20, osl: 3, play: {history: planned}}}
          slo: {ttft: 1ns}
          model: adapter
        - weight: 0.1
          workload: {name: customers, random: {isl: 30, osl: 2}}
          slo: {e2e: 10s}
          models: {prefix: customer-, count: 9, zipf: 1}
loads:
  - {rate: [200], arrival: poisson, sessions: 100}
`

// The parts of a mixture are the same on any number of agents, their shares are exact, and their results are those of
// their rows.
func TestMixtureIsTheSameOnAnyAgents(t *testing.T) {
	t.Parallel()
	var first map[string]string
	for _, agents := range []string{"1", "3", "7"} {
		r := programs.RunPlan(t, mixed, "--agents", agents)
		r.MustExit(0)
		sent, arrivals, ttft := map[string]string{}, map[string]int{}, map[string][]float64{}
		for _, row := range r.Rows()[0] {
			if row.Turn == 0 {
				arrivals[*row.Part]++
			}
			model := ""
			if row.Model != nil {
				model = *row.Model
			}
			sent[fmt.Sprint(row.Index, ".", row.Turn)] = *row.Part + " " + model + " " + row.BodyHash
			ttft[*row.Part] = append(ttft[*row.Part], float64(*row.FirstTokenNs-row.StartNs)/1e6)
		}
		if arrivals["chat"] != 60 || arrivals["talks"] != 30 || arrivals["customers"] != 10 || len(sent) != 130 {
			t.Errorf("%s agents: %v of %d requests", agents, arrivals, len(sent))
		}
		if first == nil {
			first = sent
		} else if diff := cmp.Diff(first, sent); diff != "" {
			t.Errorf("%s agents send other requests than one (-one +%[1]s):\n%s", agents, diff)
		}
		stage := r.Results().Stages[0]
		for i, good := range []uint64{60, 0, 10} {
			p := stage.Parts[i]
			sum := 0.0
			for _, ms := range ttft[p.Name] {
				sum += ms
			}
			n := len(ttft[p.Name])
			if p.Requests.Completed != uint64(n) || math.Abs(p.TTFT.Mean-sum/float64(n)) > 1e-6 ||
				p.Goodput.Requests != good {
				t.Errorf("%s agents, part %s: %d requests, mean TTFT %v, %d good, want %d, %v, %d", agents, p.Name,
					p.Requests.Completed, p.TTFT.Mean, p.Goodput.Requests, n, sum/float64(n), good)
			}
		}
		if g := stage.Goodput; g.Requests != 70 || g.TTFTMs != nil {
			t.Errorf("%s agents: goodput of the whole %+v", agents, g)
		}
	}
}
