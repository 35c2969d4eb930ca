package lifecycle

import (
	"fmt"
	"strings"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/spate-load/spate/plans"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// began returns the event data for the start of a stage.
func began(st *spatev1.Stage) *spatev1.StageBegan {
	b := &spatev1.StageBegan{
		StageIndex: st.GetIndex(), Target: st.GetTarget().GetName(), Workload: st.GetWorkload().GetName(),
		Load: plans.LoadWords(st.GetLoad()),
	}
	if d, known := plans.ExpectedDuration(st); known {
		b.Expected = durationpb.New(d)
	}
	if n, counted := plans.ExpectedRequests(st); counted {
		b.ExpectedRequests = n
	}
	return b
}

// waitedInVain returns why the run did not get its agents, and what to do.
func waitedInVain(ready []*agent, missing []string, cfg Config) string {
	if len(ready) >= cfg.MinAgents {
		return fmt.Sprintf("no agent of region %s is connected after %v: start one there (--region), or remove the region from the plan",
			strings.Join(missing, ", "), cfg.AgentsTimeout)
	}
	names := make([]string, len(ready))
	for i, a := range ready {
		names[i] = a.info.GetName()
	}
	who := "none"
	if len(names) > 0 {
		who = strings.Join(names, ", ")
	}
	return fmt.Sprintf("only %d of %d agents are ready after %v (%s): start more agents, or ask for fewer",
		len(ready), cfg.MinAgents, cfg.AgentsTimeout, who)
}

// awaited returns how many agents are ready, and which regions have none.
func awaited(ready []*agent, missing []string, cfg Config) string {
	text := fmt.Sprintf("%d of %d are ready", len(ready), cfg.MinAgents)
	if len(missing) > 0 {
		text += ", none of region " + strings.Join(missing, ", ")
	}
	return text
}
