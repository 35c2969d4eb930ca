package results

import (
	"slices"
	"strings"
)

// Headline is the answer of a run in words, made by package headline. Rates and times in it are those of the plan.
type Headline struct {
	// What the answer is about: "targets" side by side, one "target", what a "series" found, or "nothing" if no stage
	// can be believed.
	Kind string `json:"kind"`
	// Of targets side by side, how the others differ from the baseline: "BETTER", "WORSE", "MIXED", "SAME" or "UNCLEAR".
	// Null: nothing was compared.
	Verdict *string `json:"verdict"`
	// One to three sentences. What went wrong comes first.
	Sentences []string `json:"sentences"`
	// Why the answer is doubtful, in one line. Null: no reason is known.
	Doubt *string `json:"doubt"`
	// Indices of the stages that the answer rests on.
	Stages []uint32 `json:"stages"`
}

// Lines returns the answer, and then the doubt if there is one. Nil: there is no answer.
func (h *Headline) Lines() []string {
	if h == nil {
		return nil
	}
	lines := []string{strings.Join(h.Sentences, " ")}
	if h.Doubt != nil {
		lines = append(lines, "Doubt: "+*h.Doubt)
	}
	return lines
}

// Rest adds stages that the answer rests on, each once.
func (h *Headline) Rest(stages ...uint32) {
	for _, s := range stages {
		if !slices.Contains(h.Stages, s) {
			h.Stages = append(h.Stages, s)
		}
	}
}
