package allotment

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Unfit returns why a plan does not ask for an agent, empty if it does: it splits by the agent's region or by none, and
// the agent has the labels.
func Unfit(a *spatev1.AgentInfo, st *spatev1.Stage) string {
	if _, named := st.GetRegions()[a.GetRegion()]; !named && len(st.GetRegions()) > 0 {
		return fmt.Sprintf("the plan has no region %q", a.GetRegion())
	}
	wanted := st.GetAgents().GetLabels()
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		has := a.GetLabels()[name]
		if name == naming.RegionLabel {
			has = a.GetRegion()
		}
		switch has {
		case wanted[name]:
		case "":
			return fmt.Sprintf("it has no label %s=%s", name, wanted[name])
		default:
			return fmt.Sprintf("its %s is %s, not %s", name, has, wanted[name])
		}
	}
	return ""
}
