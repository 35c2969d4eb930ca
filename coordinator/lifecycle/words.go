package lifecycle

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// LoadText says a load point in words: "concurrency 8", "2 req/s poisson".
func LoadText(l *spatev1.LoadPoint) string {
	if l.GetConcurrency() > 0 {
		return fmt.Sprintf("concurrency %d", l.GetConcurrency())
	}
	return strconv.FormatFloat(l.GetRate(), 'g', -1, 64) + " req/s " + l.GetArrival()
}

// began describes a stage at its begin.
func began(st *spatev1.Stage) *spatev1.StageBegan {
	return &spatev1.StageBegan{
		StageIndex: st.GetIndex(), Target: st.GetTarget().GetName(), Workload: st.GetWorkload().GetName(),
		Load: LoadText(st.GetLoad()), Expected: expected(st.GetLoad()), ExpectedRequests: expectedRequests(st.GetLoad()),
	}
}

// expected is the time in which a stage starts requests. Nil: it depends on the server.
func expected(l *spatev1.LoadPoint) *durationpb.Duration {
	var out time.Duration
	if l.GetDuration() != nil {
		out = l.GetDuration().AsDuration() + l.GetWarmupDuration().AsDuration()
	}
	if n := expectedRequests(l); n > 0 && l.GetRate() > 0 {
		sent := time.Duration(float64(n) / l.GetRate() * float64(time.Second))
		if out == 0 || sent < out {
			out = sent
		}
	}
	if out == 0 {
		return nil
	}
	return durationpb.New(out)
}

// expectedRequests are measured and warm-up requests together. 0: they are not counted.
func expectedRequests(l *spatev1.LoadPoint) uint64 {
	if l.GetRequests() == 0 {
		return 0
	}
	return l.GetRequests() + l.GetWarmupRequests()
}

// waitedInVain says which agents came, and what to do.
func waitedInVain(ready []*agent, cfg Config) string {
	names := make([]string, len(ready))
	for i, a := range ready {
		names[i] = a.info.GetName()
	}
	who := "none"
	if len(names) > 0 {
		who = strings.Join(names, ", ")
	}
	return fmt.Sprintf("only %d of %d agents are there after %v (%s): start more agents, or ask for fewer",
		len(ready), cfg.MinAgents, cfg.AgentsTimeout, who)
}
