package regions

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spate-load/spate/aggregate/results"
	"github.com/spate-load/spate/e2e/programs"
	"github.com/spate-load/spate/internal/netlab"
	"github.com/spate-load/spate/measure"
)

// startPlan has many very short stages, so that it consists mostly of starts.
const startPlan = `
name: starts
targets: [{name: server, endpoints: [%q], model: m}]
workloads: [{random: {isl: 10, osl: 2}}]
loads:
  - {rate: [120], arrival: constant, duration: 500ms, repeats: %d}
`

// starts is the environment variable with the number of stages, for more exact measurements.
const starts = "SPATE_STARTS"

// uneven is the agent whose two directions differ.
const uneven = "uneven"

// links returns paths with round trips of 150 ms and jitter, in several shapes. One path is much longer in one
// direction. No clock can tell the directions apart, so there the uncertainty must cover the error. Some agents' clocks
// are skewed.
func links() []site {
	ms := time.Millisecond
	even := netlab.Path{Delay: 70 * ms, Jitter: 10 * ms}
	stalling := netlab.Path{Delay: 73 * ms, Jitter: 4 * ms, Stall: 60 * ms, Stalls: 0.03}
	return []site{
		{name: "a", to: even, from: even},
		{name: "b", to: even, from: even, skew: 1000 * time.Hour},
		{name: "c", to: netlab.Path{Delay: 65 * ms, Jitter: 20 * ms},
			from: netlab.Path{Delay: 65 * ms, Jitter: 20 * ms}},
		{name: "d", to: stalling, from: stalling, skew: 3*time.Hour + 123456789},
		{name: uneven, to: netlab.Path{Delay: 20 * ms, Jitter: 5 * ms},
			from: netlab.Path{Delay: 125 * ms, Jitter: 5 * ms}, skew: -time.Second},
	}
}

// Agents behind 150 ms with jitter start together, and the distance between their starts is always within the printed
// error, even with skewed clocks and with directions of different length. All clocks are this machine's, so the truth
// is known: from what agents log when they are armed and, independently, from when the server received their requests.
func TestStartErrorIsWithinWhatIsPrinted(t *testing.T) {
	t.Parallel()
	stages := 4
	if more := os.Getenv(starts); more != "" {
		if _, err := fmt.Sscan(more, &stages); err != nil {
			t.Fatalf("%s=%s: %v", starts, more, err)
		}
	}
	w := newWorld(t)
	w.startCoordinator()
	s := w.serve("server")
	sites := links()
	for i := range sites {
		sites[i].region = "far"
		w.join(sites[i])
	}
	w.awaitAgents()
	r := w.run(fmt.Sprintf(startPlan, s.url, stages))
	r.MustExit(0)
	result := r.mustBeComplete()
	arrivals := firstArrivals(result, r.rows(), s.records())
	var even, clocks, seen []time.Duration
	for _, stage := range result.Stages {
		var of, by, meant []time.Duration
		for _, site := range sites {
			truth := w.checkStart(site, result.Run.ID, stage)
			arrived := arrivals[at{stage.Index, site.name}]
			if later := time.Duration(arrived - truth.start); later < 0 || later > tardiness {
				t.Errorf("stage %d: agent %s says that its start was at %d; by what the server got it was %v later",
					stage.Index, site.name, truth.start, later)
			}
			if site.name != uneven {
				of, by, meant = append(of, truth.err), append(by, time.Duration(arrived)),
					append(meant, time.Duration(truth.start))
			}
		}
		even, clocks, seen = append(even, apart(of)...), append(clocks, apart(meant)...), append(seen, apart(by)...)
	}
	tell(t, "between the starts of two agents", even)
	tell(t, "of it by their clocks, without what they were late", clocks)
	tell(t, "the same as the server saw it", seen)
}

// truth is what is true about one agent's start of a stage.
type truth struct {
	start int64         // the instant of the start on this machine's clock, in nanoseconds, as the agent saw it
	err   time.Duration // from the start that the coordinator intended to the agent's actual start
}

// checkStart compares the true start error with the printed one and its uncertainty.
func (w *world) checkStart(s site, run string, stage results.StageResult) truth {
	w.t.Helper()
	armed := w.armed(s.name, run, stage.Index)
	for _, a := range stage.Agents {
		if a.Name != s.name {
			continue
		}
		printed, uncertainty := time.Duration(*a.StartErrorMs*1e6), time.Duration(*a.ClockUncertaintyMs*1e6)
		start := armed.ClockNs - int64(s.skew)
		err := time.Duration(start-armed.CoordinatorClockNs) + printed
		w.t.Logf("stage %d: agent %s began %v late, printed %v ± %v", stage.Index, s.name, err, printed, uncertainty)
		if wrong := (err - printed).Abs(); wrong > uncertainty {
			w.t.Errorf("stage %d: agent %s began %v late, and said %v ± %v", stage.Index, s.name, err, printed,
				uncertainty)
		}
		return truth{start, err}
	}
	w.t.Fatalf("stage %d: no agent %s in %+v", stage.Index, s.name, stage.Agents)
	return truth{}
}

// armed is the log line of an agent when it was armed.
type armed struct {
	Message            string `json:"msg"`
	Run                string `json:"run"`
	StageIndex         uint32 `json:"stage_index"`
	CoordinatorClockNs int64  `json:"coordinator_clock_ns"`
	ClockNs            int64  `json:"clock_ns"`
}

// armed finds the log line.
func (w *world) armed(agent, run string, stage uint32) armed {
	w.t.Helper()
	for line := range strings.Lines(w.agents[agent].Stderr.String()) {
		var a armed
		if json.Unmarshal([]byte(line), &a) == nil && a.Message == "armed" && a.Run == run && a.StageIndex == stage {
			return a
		}
	}
	w.t.Fatalf("agent %s was never armed for stage %d of run %s", agent, stage+1, run)
	return armed{}
}

// at is an agent in a stage.
type at struct {
	stage uint32
	agent string
}

// firstArrivals returns when each agent started a stage, judging by what the server received. Each request arrived as
// long after the start as the agent took to send it, plus its way, which takes almost no time to this server. The
// fastest request counts.
func firstArrivals(result results.Result, rows []programs.Row, got []served) map[at]int64 {
	received := map[string]int64{}
	for _, s := range got {
		received[s.RequestID] = s.ReceivedNs
	}
	first := map[at]int64{}
	for _, r := range rows {
		came, known := received[measure.RequestIDsOf(result.Run.ID, r.Stage).String(r.Index, 0)]
		if !known {
			continue
		}
		k, begin := at{r.Stage, r.Agent}, came-r.StartNs
		if earlier, there := first[k]; !there || begin < earlier {
			first[k] = begin
		}
	}
	return first
}

// apart lists the distances of all pairs.
func apart(of []time.Duration) (out []time.Duration) {
	for i, a := range of {
		for _, b := range of[:i] {
			out = append(out, (a - b).Abs())
		}
	}
	return out
}

func tell(t *testing.T, what string, all []time.Duration) {
	t.Helper()
	slices.Sort(all)
	t.Logf("%s: %d, p50 %v, p99 %v, at most %v", what, len(all), all[len(all)/2], all[len(all)*99/100], all[len(all)-1])
}
