package plans

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/plans/rules"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// light is the largest load of observers, as a part of a stage's load, that causes no warning.
const light = 0.1

// Warnings returns what is valid in a plan but perhaps not intended: observers that are not a light load beside a
// stage's own, observers that send the same requests as the load, targets that do not run in turns, or limits that do
// not apply to a target. Numbers in warnings are those of the stages; in a simulation, those of the simulation.
func (p *Plan) Warnings() Mistakes {
	stages := p.Outline()
	return slices.Concat(p.oneAfterTheOther(), p.heavyObservers(stages), p.knownRows(stages), p.idleLimits())
}

// oneAfterTheOther returns a warning if several targets do not run in turns.
func (p *Plan) oneAfterTheOther() Mistakes {
	if p.msg.GetOrder() != OrderTarget || len(p.msg.GetTargets()) < 2 {
		return nil
	}
	return Mistakes{p.Mistake("order", "the targets run one after the other: what changes over time, such as heat, other users or "+
		"the uptime of a server, cannot be told apart from a difference between them; leave this out if they can run in turns")}
}

// Meet reports whether a load of the plan runs a target with a workload.
func (p *Plan) Meet(t *spatev1.Target, w *spatev1.Workload) bool {
	return rules.Meet(p.msg, t, w)
}

// idleLimits returns a warning for each SLO and target whose answers come in one piece, so that some limits do not
// apply.
func (p *Plan) idleLimits() (found Mistakes) {
	found = p.idleLimitsOf("slo", p.msg.GetSlo(), func(*spatev1.Target) bool { return true })
	for i, w := range p.msg.GetWorkloads() {
		for j, part := range w.GetMix().GetParts() {
			found = append(found, p.idleLimitsOf(fmt.Sprintf("workloads[%d].mix.parts[%d].slo", i, j), part.GetSlo(),
				func(t *spatev1.Target) bool { return p.Meet(t, w) })...)
		}
	}
	return found
}

// idleLimitsOf returns the warnings about one SLO. of reports whether the SLO is for a target.
func (p *Plan) idleLimitsOf(path string, slo *spatev1.SLO, of func(*spatev1.Target) bool) (found Mistakes) {
	fields := p.document.Given(path, "ttft", "tpot")
	if len(fields) == 0 {
		return nil
	}
	effect := "its requests have no goodput there"
	if slo.GetE2E() != nil {
		effect = "e2e alone applies there"
	}
	for _, t := range p.msg.GetTargets() {
		if of(t) && !defaults.Streams(t) {
			found = append(found, p.Mistake(path+"."+fields[0], fmt.Sprintf(
				"%s cannot be measured on the target %q, whose answers come in one piece: %s",
				strings.Join(fields, " and "), t.GetName(), effect)))
		}
	}
	return found
}

// heavyObservers returns a warning if the observers are not a light load.
func (p *Plan) heavyObservers(stages []*spatev1.Stage) Mistakes {
	heaviest, most, many := 0, 0.0, 0
	for i, s := range stages {
		part := observed(s)
		if part > light {
			many++
		}
		if part > most {
			heaviest, most = i, part
		}
	}
	if many == 0 {
		return nil
	}
	field := "observers"
	for _, own := range p.document.Given(field, "rate", "concurrency") {
		field += "." + own
	}
	return Mistakes{p.Mistake(field,
		fmt.Sprintf("observers are not a light load: more than a tenth of the load of %d of %d stages, "+
			"and %.0f %% of that of stage %d (%s); their requests are in no result, but the target serves them",
			many, len(stages), 100*most, heaviest+1, loadpoint.Words(stages[heaviest].GetLoad())))}
}

// knownRows returns a warning if observers send the same texts as the load. Rows of a file do not depend on the seed.
func (p *Plan) knownRows(stages []*spatev1.Stage) Mistakes {
	var names []string
	for _, s := range stages {
		w := s.GetWorkload()
		own := slices.ContainsFunc(content.Parts(w), func(part *spatev1.Workload) bool {
			return content.File(part) != nil && part.GetCacheBusting() != "request"
		})
		if s.GetObservers() != nil && own && !slices.Contains(names, w.GetName()) {
			names = append(names, w.GetName())
		}
	}
	if len(names) == 0 {
		return nil
	}
	return Mistakes{p.Mistake("observers",
		fmt.Sprintf("observers send the same rows of a file as the load (%s): a prefix cache may answer "+
			"them sooner; set cache_busting: request to rule that out", strings.Join(names, ", ")))}
}

// observed returns the load of a stage's observers as a part of the stage's own. It returns 0 if there are no
// observers, or if the two loads cannot be compared. If the plan has no regions, this is the load of one observer;
// there may be more of them.
func observed(s *spatev1.Stage) float64 {
	o, l := s.GetObservers(), s.GetLoad()
	rate, concurrency := l.GetRate(), float64(l.GetConcurrency())
	if rates, concurrencies := loadpoint.Varied(l); rates != nil || concurrencies != nil {
		rate, concurrency = rates.GetFrom(), concurrencies.GetFrom()
	}
	if len(l.GetPhases()) > 0 && concurrency == 0 {
		rate = loadpoint.LargestPhase(l.GetPhases())
	}
	many := float64(max(1, len(s.GetRegions())))
	switch {
	case o.GetRate() > 0 && rate > 0:
		return many * o.GetRate() / rate
	case o.GetConcurrency() > 0 && concurrency > 0:
		return many * float64(o.GetConcurrency()) / concurrency
	}
	return 0
}
