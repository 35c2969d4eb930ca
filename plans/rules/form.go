package rules

import (
	"fmt"

	"github.com/spate-load/spate/api/openai"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// textForms refuses several texts for a target whose API takes one prompt.
func (c *checker) textForms(p *spatev1.Plan) {
	for i, t := range p.GetTargets() {
		eachPart(p, func(path string, of, w *spatev1.Workload) {
			at := path + "." + content.Kind(w)
			given := c.Given(at, "texts", "text_counts")
			if len(given) > 0 && !defaults.API(t).NoOutput && Meet(p, t, of) {
				c.wrong(at+"."+given[0],
					fmt.Sprintf("does not work with the target %q (targets[%d]) of api: %s: only embeddings, rerank and score take several texts",
						t.GetName(), i, defaults.API(t).Name))
			}
		})
	}
}

// outputLengths requires an output length unless no target of a workload has output tokens.
func (c *checker) outputLengths(p *spatev1.Plan) {
	eachPart(p, func(path string, of, w *spatev1.Workload) {
		at := path + ".random"
		if w.GetRandom() == nil || len(c.Given(at, "osl", "osl_lengths")) > 0 {
			return
		}
		met, outputs := false, false
		for _, t := range p.GetTargets() {
			if Meet(p, t, of) {
				met, outputs = true, outputs || !defaults.API(t).NoOutput
			}
		}
		if !met || outputs {
			c.one(at, "osl", "osl_lengths")
		}
	})
}

// outputs refuses workloads whose requests need the answers before them, for targets whose answers have no tokens.
func (c *checker) outputs(p *spatev1.Plan) {
	for i, t := range p.GetTargets() {
		eachPart(p, func(path string, of, w *spatev1.Workload) {
			if defaults.API(t).NoOutput && content.PlaysSessions(w) && Meet(p, t, of) {
				c.wrong(path, fmt.Sprintf("does not work with the target %q (targets[%d]): "+
					"api: %s has no answers that a conversation could continue", t.GetName(), i, t.GetApi()))
			}
		})
	}
}

// forms refuses workloads whose prompts cannot be sent in the form that a target takes. The rows of a JSONL file are
// not known here.
func (c *checker) forms(p *spatev1.Plan) {
	for i, t := range p.GetTargets() {
		c.imageForms(p, fmt.Sprintf("%q (targets[%d])", t.GetName(), i), t)
		if !defaults.SendsTokenIDs(t) {
			continue
		}
		eachPart(p, func(path string, of, w *spatev1.Workload) {
			if why := textAlone(w); why != "" && Meet(p, t, of) {
				c.wrong(path, fmt.Sprintf("does not work with the target %q (targets[%d]), whose prompts are token ids: %s",
					t.GetName(), i, why))
			}
		})
	}
}

// imageForms refuses images for a target whose API does not take them as OpenAI's chat does.
func (c *checker) imageForms(p *spatev1.Plan, target string, t *spatev1.Target) {
	if name := defaults.API(t).Name; name != openai.Chat.Name {
		eachPart(p, func(path string, of, w *spatev1.Workload) {
			if w.GetRandom().GetImages() != nil && Meet(p, t, of) {
				c.wrong(path+".random.images",
					fmt.Sprintf("does not work with the target %s of api: %s: only chat takes them", target, name))
			}
		})
	}
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
