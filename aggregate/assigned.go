package aggregate

import (
	"slices"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Assigned returns the part of the process that a snapshot is named by, nil if it has none in the stage. It is asked
// for each snapshot, and a stage may have a thousand agents: records have them in the order of their names, but for
// those that joined later, so that nearly all are found by their place.
func Assigned(rec *spatev1.StageRecord, k *spatev1.SnapshotKey) *spatev1.AssignedAgent {
	agents := rec.GetAgents()
	i, found := slices.BinarySearchFunc(agents, k.GetAgent(), func(a *spatev1.AssignedAgent, name string) int {
		return strings.Compare(a.GetAgent().GetName(), name)
	})
	if found && agents[i].GetIncarnation() == k.GetIncarnation() {
		return agents[i]
	}
	for _, a := range agents {
		if a.GetAgent().GetName() == k.GetAgent() && a.GetIncarnation() == k.GetIncarnation() {
			return a
		}
	}
	return nil
}
