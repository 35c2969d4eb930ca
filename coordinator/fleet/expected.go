package fleet

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/plans/naming"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// MaxExpected is the largest number of agents that can be expected.
const MaxExpected = 10_000

// Expected are the agents that should be connected. Its zero value expects none.
type Expected struct {
	// Names are agents by name.
	Names []string
	// Regions are numbers of agents by region.
	Regions map[string]int
}

// ParseExpected reads what a person types: names of agents, and numbers by region such as eu=10.
func ParseExpected(texts []string) (Expected, error) {
	e, all := Expected{Regions: map[string]int{}}, 0
	for _, text := range texts {
		region, number, byRegion := strings.Cut(text, "=")
		n, err := strconv.Atoi(number)
		switch {
		case text == "" || byRegion && (err != nil || n < 1 || region == "" || naming.CheckRegion(region) != nil):
			return Expected{}, fmt.Errorf("%.80q: want the name of an agent, or a number by region such as eu=10", text)
		case byRegion && e.Regions[region] > 0 || !byRegion && slices.Contains(e.Names, text):
			return Expected{}, fmt.Errorf("%.80q: it is named twice", text)
		case byRegion:
			e.Regions[region] = n
			all += min(n, MaxExpected+1)
		default:
			e.Names = append(e.Names, text)
			all++
		}
	}
	if all > MaxExpected {
		return Expected{}, fmt.Errorf("%d agents: want at most %d", all, MaxExpected)
	}
	return e, nil
}

// Missing returns the expected agents that are not present: those with a name by name, then one without a name for each
// that a region lacks.
func (e Expected) Missing(present []*spatev1.AgentInfo) (missing []*spatev1.AgentInfo) {
	named, inRegion := map[string]bool{}, map[string]int{}
	for _, a := range present {
		named[a.GetName()] = true
		inRegion[a.GetRegion()]++
	}
	for _, name := range slices.Sorted(slices.Values(e.Names)) {
		if !named[name] {
			missing = append(missing, &spatev1.AgentInfo{Name: name})
		}
	}
	for _, region := range slices.Sorted(maps.Keys(e.Regions)) {
		for range e.Regions[region] - inRegion[region] {
			missing = append(missing, &spatev1.AgentInfo{Region: region})
		}
	}
	return missing
}

// MissingWords names the expected agents that are not present: "eu-1", "2 of 10 of region us".
func (e Expected) MissingWords(present []*spatev1.AgentInfo) (list []string) {
	lacks := map[string]int{}
	for _, a := range e.Missing(present) {
		if a.GetName() != "" {
			list = append(list, a.GetName())
			continue
		}
		lacks[a.GetRegion()]++
	}
	for _, region := range slices.Sorted(maps.Keys(lacks)) {
		list = append(list, fmt.Sprintf("%d of %d of region %s", lacks[region], e.Regions[region], region))
	}
	return list
}
