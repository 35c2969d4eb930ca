package runcmd

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/cli/plancmd"
	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans"
	"github.com/spate-load/spate/plans/naming"
)

// embedded is the number of agents in this process, by region. It is the value of a flag: "3" agents without a region,
// or "eu=2,us=1".
type embedded []regionAgents

// regionAgents is the number of agents of one region. region may be empty.
type regionAgents struct {
	region string
	count  int
}

// with returns the numbers with one agent more in a region.
func (e embedded) with(region string) embedded {
	i := slices.IndexFunc(e, func(r regionAgents) bool { return r.region == region })
	if i < 0 {
		i, e = len(e), append(e, regionAgents{region: region})
	}
	e[i].count++
	return e
}

// defaultAgents returns the default number of agents of a run.
func defaultAgents() embedded { return embedded{{count: 2}} }

// String formats the numbers as a person writes them.
func (e *embedded) String() string {
	var parts []string
	for _, r := range *e {
		if r.region == "" {
			return strconv.Itoa(r.count)
		}
		parts = append(parts, r.region+"="+strconv.Itoa(r.count))
	}
	return strings.Join(parts, ",")
}

// Type returns the name of the value in --help.
func (e *embedded) Type() string { return "number" }

// Set parses what a person wrote. It does not check how many agents there are.
func (e *embedded) Set(text string) error {
	if n, err := strconv.Atoi(text); err == nil {
		*e = embedded{{count: n}}
		return nil
	}
	var found embedded
	for part := range strings.SplitSeq(text, ",") {
		region, number, _ := strings.Cut(part, "=")
		n, err := strconv.Atoi(strings.TrimSpace(number))
		region = strings.TrimSpace(region)
		if err != nil || region == "" {
			return fmt.Errorf("%q: want a number, or numbers by region such as eu=2,us=1", part)
		}
		if slices.ContainsFunc(found, func(r regionAgents) bool { return r.region == region }) {
			return fmt.Errorf("%q: the region is named twice", part)
		}
		found = append(found, regionAgents{region, n})
	}
	*e = found
	return nil
}

// total returns the number of all agents.
func (e *embedded) total() int { return lists.Sum(*e, func(r regionAgents) int { return r.count }) }

// check refuses numbers and regions that no run can have.
func (e *embedded) check() error {
	few := slices.ContainsFunc(*e, func(r regionAgents) bool { return r.count < 1 })
	if total := e.total(); few || total > 1000 {
		return fmt.Errorf("--agents %s: want 1 to 1000", e)
	}
	for _, r := range *e {
		if err := naming.CheckRegion(r.region); err != nil {
			return fmt.Errorf("--agents %s: region %q %w", e, r.region, err)
		}
	}
	return nil
}

// embeddedName is the name and region of an embedded agent.
type embeddedName struct{ name, region string }

// names returns the name of each agent: eu-1, eu-2, us-1, or embedded-1 without a region.
func (e *embedded) names() []embeddedName {
	var names []embeddedName
	for _, r := range *e {
		for i := range r.count {
			names = append(names, embeddedName{fmt.Sprintf("%s-%d", cmp.Or(r.region, "embedded"), i+1), r.region})
		}
	}
	return names
}

// fits refuses agents that are not those that the plan asks for: such a run would wait in vain. on: they are on hosts.
func (e *embedded) fits(plan *plans.Plan, on bool) error {
	field, regions, asked := "regions", plancmd.RegionsOf(plan), plan.Proto().GetAgents()
	if len(regions) == 0 {
		field = "agents"
		if region := asked.GetLabels()[naming.RegionLabel]; region != "" {
			regions = []string{region}
		}
	}
	count := cmp.Or(int(asked.GetCount()), e.total())
	cure := lists.Each(regions, func(region string) string { return region + "=1" })
	if len(regions) < 2 {
		cure = []string{strings.Join(append(regions, strconv.Itoa(count)), "=")}
	}
	if count == e.total() && (len(regions) == 0 || slices.Equal(e.regions(), regions)) {
		return nil
	}
	if on {
		return plans.Mistakes{plan.Mistake(field, fmt.Sprintf("the agents of --on (%s) are not those of the plan (%s): "+
			"give --on REGION=HOST for each", e, strings.Join(cure, ",")))}
	}
	return plans.Mistakes{plan.Mistake(field,
		fmt.Sprintf("--agents %s are not those of the plan: give --agents %s to try the plan on this machine, "+
			"or --coordinator to run it on such agents", e, strings.Join(cure, ",")))}
}

// regions returns the regions of the agents, sorted.
func (e *embedded) regions() (regions []string) {
	regions = lists.Each(*e, func(r regionAgents) string { return r.region })
	slices.Sort(regions)
	return regions
}
