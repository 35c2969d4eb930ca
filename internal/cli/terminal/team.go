package terminal

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/words"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/watch"
)

// mostNames is how many agents of a run, or of a region, are named.
const mostNames = 6

// teamWords names the agents of a run, by region if there are several: "eu (eu-1, eu-2), us (us-1)".
func teamWords(agents []*spatev1.AgentInfo) string {
	var regions, all []string
	names := map[string][]string{}
	for _, a := range agents {
		region := a.GetRegion()
		if names[region] == nil {
			regions = append(regions, region)
		}
		names[region] = append(names[region], a.GetName())
		all = append(all, a.GetName())
	}
	if len(regions) < 2 {
		return words.Shorten(all, mostNames)
	}
	slices.Sort(regions)
	var parts []string
	for _, region := range regions {
		title := region
		if title == "" {
			title = "no region"
		}
		if len(names[region]) > mostNames {
			parts = append(parts, fmt.Sprintf("%s (%d)", title, len(names[region])))
		} else {
			parts = append(parts, fmt.Sprintf("%s (%s)", title, strings.Join(names[region], ", ")))
		}
	}
	return strings.Join(parts, ", ")
}

// changeWords says that an agent was lost or joined, and what follows, and returns a mark for the line.
func changeWords(c *spatev1.AgentChanged) (mark, text string) {
	severity, text := watch.Change(c)
	return Mark(severity), text
}
