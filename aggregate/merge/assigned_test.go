package merge

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Records list agents sorted by name, and after them those that joined later, some under a name that is already in the
// list.
func TestAssignedFindsEveryProcess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rec := &spatev1.StageRecord{}
		add := func(name, incarnation int) {
			rec.Agents = append(rec.Agents, &spatev1.AssignedAgent{
				Agent: &spatev1.AgentInfo{Name: "agent-" + strconv.Itoa(100+name)}, Incarnation: uint64(incarnation),
			})
		}
		first := rapid.IntRange(0, 20).Draw(t, "agents")
		for i := range first {
			add(2*i, 1)
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "joined") {
			add(rapid.IntRange(0, 50).Draw(t, "name"), 2+i)
		}
		for _, a := range rec.GetAgents() {
			if got := Assigned(rec, &spatev1.SnapshotKey{Agent: a.GetAgent().GetName(),
				Incarnation: a.GetIncarnation()}); got != a {
				t.Fatalf("%v found for %v", got, a)
			}
		}
		if got := Assigned(rec, &spatev1.SnapshotKey{Agent: "agent-" +
			strconv.Itoa(rapid.IntRange(100, 160).Draw(t, "other")), Incarnation: 99}); got != nil {
			t.Fatalf("%v found", got)
		}
	})
}
