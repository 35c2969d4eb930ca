package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// agents checks the selector of a plan's agents.
func (c *checker) agents(p *spatev1.Plan) {
	const labels, count = "agents.labels", "agents.count"
	s := p.GetAgents()
	for _, name := range slices.Sorted(maps.Keys(s.GetLabels())) {
		if err := naming.CheckLabel(name, s.GetLabels()[name]); err != nil {
			c.wrong(labels+"["+strconv.Quote(name)+"]", err.Error())
		}
	}
	if len(p.GetRegions()) > 0 && s.GetLabels()[naming.RegionLabel] != "" {
		c.wrong(labels+"["+strconv.Quote(naming.RegionLabel)+"]", "regions say already which regions take part: give one of the two")
	}
	if n := len(p.GetRegions()); s.GetCount() > 0 && int(s.GetCount()) < n {
		c.wrong(count, fmt.Sprintf("must be at least the number of regions, %d, got %d", n, s.GetCount()))
	}
}
