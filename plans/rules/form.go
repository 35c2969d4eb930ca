package rules

import (
	"fmt"
	"slices"

	"github.com/spate-load/spate/api/openai"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// forms checks each target with the workloads that a load runs it with.
func (c *checker) forms(p *spatev1.Plan) {
	c.outputLengths(p)
	for i, t := range p.GetTargets() {
		target := fmt.Sprintf("does not work with the target %q (targets[%d])", t.GetName(), i)
		eachPart(p, func(path string, of, w *spatev1.Workload) {
			if Meet(p, t, of) {
				c.form(path, target, t, w)
			}
		})
	}
}

// form refuses what a workload sends where a target's API does not take it. The rows of a JSONL file are not known
// here.
func (c *checker) form(path, target string, t *spatev1.Target, w *spatev1.Workload) {
	a, texts := defaults.API(t), path+"."+content.Kind(w)
	if given := c.Given(texts, "texts", "text_counts"); len(given) > 0 && !a.NoOutput {
		c.wrong(texts+"."+given[0], fmt.Sprintf("%s of api: %s: only embeddings, rerank and score take several texts",
			target, a.Name))
	}
	if a.NoOutput && content.PlaysSessions(w) {
		c.wrong(path, fmt.Sprintf("%s: api: %s has no answers that a conversation could continue", target, a.Name))
	}
	if w.GetRandom().GetImages() != nil && a.Name != openai.Chat.Name {
		c.wrong(path+".random.images", fmt.Sprintf("%s of api: %s: only chat takes them", target, a.Name))
	}
	if why := textAlone(w); why != "" && defaults.SendsTokenIDs(t) {
		c.wrong(path, fmt.Sprintf("%s, whose prompts are token ids: %s", target, why))
	}
}

// outputLengths requires an output length unless no target of a workload has output tokens.
func (c *checker) outputLengths(p *spatev1.Plan) {
	eachPart(p, func(path string, of, w *spatev1.Workload) {
		at := path + ".random"
		if w.GetRandom() == nil || len(c.Given(at, "osl", "osl_lengths")) > 0 {
			return
		}
		met := slices.DeleteFunc(slices.Clone(p.GetTargets()), func(t *spatev1.Target) bool { return !Meet(p, t, of) })
		outputs := slices.ContainsFunc(met, func(t *spatev1.Target) bool { return !defaults.API(t).NoOutput })
		if len(met) == 0 || outputs {
			c.absent(at, "has neither osl nor osl_lengths: give one of them", "osl", "osl_lengths")
		}
	})
}

// textAlone returns why a workload has no token IDs, or "" if it has or may have some.
func textAlone(w *spatev1.Workload) string {
	const instead = "set the target's prompts to text, or its api to chat"
	switch {
	case w.GetSharegpt() != nil:
		return "ShareGPT's conversations are text; " + instead
	case w.GetSessions() != nil && w.GetSessions().GetPlay().GetHistory() != "planned":
		return "its history holds the server's answers, which are text; set history to planned, or " + instead
	}
	return ""
}
