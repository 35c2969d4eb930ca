package agent

import (
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/spate-load/spate/agent/enginetest"
	"github.com/spate-load/spate/aggregate/merge"
	"github.com/spate-load/spate/aggregate/results"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Agents' snapshots pass the coordinator's checks, and add up to the totals.
func TestSnapshotsMakeACompleteStage(t *testing.T) {
	t.Parallel()
	for name, e := range map[string]*enginetest.Engine{"sound": enginetest.New(t, 0, 0), "refusing": enginetest.New(t, 0, 503)} {
		t.Run(name, func(t *testing.T) {
			c := newCoordinator(t)
			c.start(Config{})
			incarnation := c.next().GetHello().GetIncarnation()
			a := enginetest.AssignOf(
				enginetest.StageOf(&spatev1.LoadPoint{Concurrency: 3, Requests: 30, WarmupRequests: 5}, e, e),
				0,
			)
			a.Stage.Target.Endpoints[1] += "/" // the target's endpoints differ
			c.begin(a)
			c.totals(0)
			run := &spatev1.RunRecord{RunId: "run", Records: "jsonl"}
			stage := &spatev1.StageRecord{
				Stage: a.GetStage(), StartTime: timestamppb.Now(), Ended: true,
				Agents: []*spatev1.AssignedAgent{{Agent: &spatev1.AgentInfo{Name: "a"}, Incarnation: incarnation,
					Weight: 1}},
			}
			merged := merge.NewStage(stage)
			for _, s := range c.once() {
				if _, err := merge.Check(s, run, stage); err != nil {
					t.Fatal(err)
				}
				if err := merged.Add(s); err != nil {
					t.Fatal(err)
				}
			}
			if missing := results.OfStage(merged, stage).Missing; len(missing) != 0 {
				t.Errorf("missing: %q", missing)
			}
		})
	}
}
