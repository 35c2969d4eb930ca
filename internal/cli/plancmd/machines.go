package plancmd

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// RegionsOf returns the regions of a plan, sorted.
func RegionsOf(plan *plans.Plan) []string { return slices.Sorted(maps.Keys(plan.Proto().GetRegions())) }

// agentWords says which agents a plan asks for: "10 with pool=big, region=eu". Empty: any.
func agentWords(s *spatev1.AgentSelector) string {
	switch list := strings.Join(naming.LabelTexts(s.GetLabels()), ", "); {
	case s.GetCount() > 0 && list != "":
		return fmt.Sprintf("%d with %s", s.GetCount(), list)
	case s.GetCount() > 0:
		return strconv.Itoa(int(s.GetCount()))
	case list != "":
		return "all with " + list
	}
	return ""
}

// machineWords says which agents a plan asks for, and what happens if it loses one. Empty: it says nothing of both.
func machineWords(plan *plans.Plan) string {
	var parts []string
	if text := agentWords(plan.Proto().GetAgents()); text != "" {
		parts = append(parts, "agents: "+text)
	}
	if policy := plan.Proto().GetOnAgentLoss(); policy != "" {
		parts = append(parts, "on_agent_loss: "+policy)
	}
	return strings.Join(parts, "; ")
}
