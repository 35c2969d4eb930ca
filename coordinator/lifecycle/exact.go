package lifecycle

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/clock"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// byAgreement is Preparation.exact_output_by of an agent that does as the others do.
const byAgreement = "agreed"

// agreedNote is what people are told, by what all agents do.
var agreedNote = map[bool]string{
	true: "Agents found different answers of the server: all ask for outputs of exactly OSL tokens, which one agent " +
		"found that it accepts. To decide it, set the target's exact_output.",
	false: "Agents found different answers of the server: none asks for outputs of exactly OSL tokens, which one agent " +
		"found that it does not make. To decide it, set the target's exact_output.",
}

// agreeOnOutput makes all agents of a stage ask for outputs of exact length, or none, though they may have found
// different answers of the server. An agent that joins later does as the others do.
func (r *Run) agreeOnOutput(at clock.Instant, exact bool, assignments ...*assignment) {
	for _, p := range assignments {
		if p.preparation == nil || p.preparation.GetExactOutput() == exact {
			continue
		}
		note := agreedNote[exact]
		p.preparation = proto.CloneOf(p.preparation)
		p.preparation.ExactOutput, p.preparation.ExactOutputBy = exact, byAgreement
		p.preparation.Notes = append(p.preparation.Notes, note)
		r.tellNotes(at, []string{note})
	}
}

// exactOutput decides for all agents of a stage whether requests ask for outputs of exact length. An agent asks only if
// something shows that the server accepts it, so one yes is enough, unless an answer showed another agent that the
// server does not. A request that failed shows nothing.
func exactOutput(assignments []*assignment) bool {
	said := func(holds func(*spatev1.Preparation) bool) bool {
		return slices.ContainsFunc(assignments, func(p *assignment) bool {
			return p.failure == "" && p.preparation != nil && holds(p.preparation)
		})
	}
	return said((*spatev1.Preparation).GetExactOutput) && !said(func(p *spatev1.Preparation) bool {
		return !p.GetExactOutput() && p.GetExactOutputBy() != ""
	})
}
