package runcmd

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/cli/plancmd"
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
func (e *embedded) total() int {
	total := 0
	for _, r := range *e {
		total += r.count
	}
	return total
}

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
			name := r.region
			if name == "" {
				name = "embedded"
			}
			names = append(names, embeddedName{fmt.Sprintf("%s-%d", name, i+1), r.region})
		}
	}
	return names
}

// fits refuses agents that the plan does not ask for, and a plan with a region that has no agent or with another number
// of agents: such a run would wait in vain.
func (e *embedded) fits(plan *plans.Plan) error {
	regions := plancmd.RegionsOf(plan)
	var missing, cure []string
	for _, region := range regions {
		i := slices.IndexFunc(*e, func(r regionAgents) bool { return r.region == region })
		if i < 0 {
			missing = append(missing, region)
		}
		cure = append(cure, region+"=1")
	}
	if len(missing) == 0 {
		return errors.Join(e.idle(plan, regions), e.selected(plan), e.held(plan))
	}
	return plans.Mistakes{plan.Mistake("regions",
		fmt.Sprintf("no agent is in region %s: give --agents %s to try the plan on this machine, "+
			"or --coordinator to run it on agents of these regions", strings.Join(missing, ", "),
			strings.Join(cure, ",")))}
}

// selected refuses a plan whose selector chooses another number of agents, or agents of another region.
func (e *embedded) selected(plan *plans.Plan) error {
	s := plan.Proto().GetAgents()
	region, count := s.GetLabels()[naming.RegionLabel], int(s.GetCount())
	other := region != "" && slices.ContainsFunc(*e, func(r regionAgents) bool { return r.region != region })
	if !other && (count == 0 || count == e.total()) {
		return nil
	}
	if count == 0 {
		count = e.total()
	}
	cure := strconv.Itoa(count)
	if region != "" {
		cure = region + "=" + cure
	}
	return plans.Mistakes{plan.Mistake("agents",
		fmt.Sprintf("--agents %s are not the agents that it asks for: give --agents %s to try the plan on this machine, "+
			"or --coordinator to run it on such agents", e, cure))}
}

// held refuses a load that leaves an agent no request in flight.
func (e *embedded) held(plan *plans.Plan) error {
	for i, load := range plan.Proto().GetLoads() {
		if most := load.GetMaxInFlight(); most > 0 && int(most) < e.total() {
			return plans.Mistakes{plan.Mistake(fmt.Sprintf("loads[%d].max_in_flight", i),
				fmt.Sprintf("%d requests in flight leave some of the %d agents on this machine none: give --agents %d", most,
					e.total(), most))}
		}
	}
	return nil
}

// idle refuses agents of regions that the plan does not name.
func (e *embedded) idle(plan *plans.Plan, regions []string) error {
	for _, r := range *e {
		if len(regions) > 0 && !slices.Contains(regions, r.region) {
			return plans.Mistakes{plan.Mistake("regions",
				fmt.Sprintf("agents of region %s have no load, but --agents %s asks for them: the "+
					"plan's regions are %s", r.region, e, strings.Join(regions, ", ")))}
		}
	}
	return nil
}
