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

// machineWords says what a plan asks of several machines: "regions: eu 60 %, us 40 %". Empty: nothing.
func machineWords(plan *plans.Plan) string {
	p := plan.Proto()
	var parts, shares []string
	whole := 0.0
	for _, share := range p.GetRegions() {
		whole += share
	}
	for _, region := range RegionsOf(plan) {
		shares = append(shares, fmt.Sprintf("%s %.3g %%", region, 100*p.GetRegions()[region]/whole))
	}
	if len(shares) > 0 {
		parts = append(parts, "regions: "+strings.Join(shares, ", "))
	}
	if text := agentWords(p.GetAgents()); text != "" {
		parts = append(parts, "agents: "+text)
	}
	if policy := p.GetOnAgentLoss(); policy != "" {
		parts = append(parts, "on_agent_loss: "+policy)
	}
	return strings.Join(parts, "; ")
}
