package merge

import (
	"slices"
	"strings"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Assigned returns the assigned agent (name and process) that a snapshot's key names, or nil if it takes no part in the
// stage. It runs for each snapshot, and a stage may have a thousand agents. Records list agents sorted by name, except
// those that joined later, so the binary search finds nearly all of them.
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

// InResult reports whether a snapshot belongs to the result of a stage. Of a lost agent, only the windows before its
// loss belong to it. Other agents send the later windows, which would otherwise count twice. If none does, the result
// says that they are missing.
func InResult(rec *spatev1.StageRecord, s *spatev1.Snapshot) bool {
	assigned := Assigned(rec, s.GetKey())
	return assigned != nil && beforeLoss(assigned.GetLoss(), s)
}

// beforeLoss reports whether a snapshot's window is before its agent's loss, or the agent was not lost (nil).
func beforeLoss(loss *spatev1.Loss, s *spatev1.Snapshot) bool {
	return loss == nil || s.GetWindow() < loss.GetFromWindow()
}
