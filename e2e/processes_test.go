package e2e

import (
	"math"
	"os"
	"testing"

	"github.com/spate-load/spate/e2e/programs"
)

// sent is what the plan decides about a request. Nothing in it may depend on the agent that sent it.
type sent struct {
	stage     uint32
	index     uint64
	turn      uint32
	body      string
	warmup    bool
	scheduled int64 // 0 in a closed loop and in later turns of a session, where it depends on the server
}

// sentBy lists what a run sent, by stage and index.
func sentBy(t *testing.T, r programs.Running) []sent {
	t.Helper()
	result, rows := r.Results(), r.Rows()
	var all []sent
	for _, stage := range result.Stages {
		for _, row := range rows[stage.Index] {
			s := sent{stage: stage.Index, index: row.Index, turn: row.Turn, body: row.BodyHash, warmup: row.Unmeasured}
			if stage.Load.Concurrency == nil && row.Turn == 0 {
				s.scheduled = row.ScheduledNs
			}
			all = append(all, s)
		}
	}
	return all
}

// mustShareByWeight fails the test unless each agent sent its share of the open loops: to within one request where
// arrivals are dealt out, and within four standard deviations where they are drawn.
func mustShareByWeight(t *testing.T, r programs.Running, weights map[string]int) {
	t.Helper()
	sum := 0
	for _, weight := range weights {
		sum += weight
	}
	rows := r.Rows()
	for _, stage := range r.Results().Stages {
		if stage.Load.Rate == nil {
			continue
		}
		got, all := map[string]int{}, 0
		for _, row := range rows[stage.Index] {
			if row.Turn == 0 {
				got[row.Agent]++
				all++
			}
		}
		for name, weight := range weights {
			part := float64(weight) / float64(sum)
			share, slack := float64(all)*part, 1.0
			if *stage.Load.Arrival == "poisson" {
				slack = 4 * math.Sqrt(share*(1-part))
			}
			if off := float64(got[name]) - share; math.Abs(off) > slack {
				t.Errorf("stage %d: agent %s of weight %d started %d arrivals, its share is %.2f", stage.Index, name,
					weight, got[name], share)
			}
		}
	}
}

func TestMain(m *testing.M) {
	_ = os.Unsetenv("CI") // with which nothing is shown on a full screen
	os.Exit(programs.Main(m, 6))
}
