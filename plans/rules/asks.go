package rules

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/spate-load/spate/api"
	"github.com/spate-load/spate/api/registry"
	"github.com/spate-load/spate/api/schema"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
)

// unread says why a file of a plan must have been read.
const unread = "the file was not read: run the plan with `spate run`, or write its content into the plan"

// asks checks what a workload asks for besides text. discover: files of the plan will be read.
func (c *checker) asks(path string, w *spatev1.Workload, discover bool) {
	if tools := w.GetTools(); tools != nil {
		c.tools(path+".tools", tools, discover)
	}
	answer, at := w.GetAnswer(), path+".answer"
	switch {
	case answer == nil:
	case answer.GetSchema() == nil && answer.GetPath() != "" && !discover:
		c.wrong(at+".path", "%s", unread)
	case answer.GetSchema() != nil:
		if text, err := protojson.Marshal(answer.GetSchema()); err == nil {
			if _, err := schema.Compile(string(text)); err != nil {
				c.wrong(at+".schema", "is not a JSON Schema that answers can be checked by: %v", err)
			}
		}
	}
}

func (c *checker) tools(path string, t *spatev1.Tools, discover bool) {
	if len(t.GetDefinitions()) == 0 {
		c.refuse(t.GetPath() != "" && !discover, path+".path", "%s", unread)
		return
	}
	var names []string
	for i, d := range t.GetDefinitions() {
		name := defaults.Tool(d).Name
		if at := fmt.Sprintf("%s.definitions[%d]", path, i); name == "" {
			c.wrong(at, "has no name: give {name: ..., description: ..., parameters: {type: object, ...}}")
		} else if slices.Contains(names, name) {
			c.wrong(at, "the name %q is already used by another tool", name)
		}
		if name != "" {
			names = append(names, name)
		}
	}
	words := []string{"", api.ChoiceAuto, api.ChoiceNone, api.ChoiceRequired}
	if choice := t.GetChoice(); !slices.Contains(words, choice) && !slices.Contains(names, choice) {
		c.wrong(path+".choice", "must be auto, none, required or the name of a tool (%s), got %q",
			strings.Join(names, ", "), choice)
	}
}

// askForms refuses what a workload asks for where a target's API cannot say it, or where a body says it.
func (c *checker) askForms(p *spatev1.Plan) {
	for i, t := range p.GetTargets() {
		target := fmt.Sprintf("does not work with the target %q (targets[%d])", t.GetName(), i)
		for j, w := range p.GetWorkloads() {
			if !Meet(p, t, w) {
				continue
			}
			path, bodyPath := fmt.Sprintf("workloads[%d]", j), fmt.Sprintf("targets[%d].body", i)
			bodies := map[string]*structpb.Struct{bodyPath: t.GetBody()}
			for k, part := range w.GetMix().GetParts() {
				at := fmt.Sprintf("%s.mix.parts[%d]", path, k)
				own := map[string]*structpb.Struct{bodyPath: t.GetBody(), at + ".body": part.GetBody()}
				c.askForm(at+".workload", target, t, part.GetWorkload(), own)
				maps.Copy(bodies, own)
			}
			c.askForm(path, target, t, w, bodies)
		}
	}
}

// askForm checks what a workload asks for against a target's API, and against the fields of bodies, by their paths.
func (c *checker) askForm(
	path, target string, t *spatev1.Target, w *spatev1.Workload, bodies map[string]*structpb.Struct,
) {
	a := defaults.API(t)
	if c.unsayable(path, target, a, w) {
		return
	}
	asks := defaults.Asks(a, w)
	options, _ := asks[a.Options].(map[string]any)
	delete(asks, a.Options) // a body may have other options
	for at, body := range bodies {
		c.saidTwice(at, path, body, asks)
		c.saidTwice(at+"["+strconv.Quote(a.Options)+"]", path, body.GetFields()[a.Options].GetStructValue(), options)
	}
}

// saidTwice refuses the fields of given, an object of a body, that the workload at path asks for.
func (c *checker) saidTwice(at, path string, given *structpb.Struct, asks map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if _, ok := given.GetFields()[name]; ok {
			c.wrong(at+"["+strconv.Quote(name)+"]", "is also what %s asks for: give it in one of them", path)
		}
	}
}

// unsayable reports whether an API cannot say what a workload asks for, and says so.
func (c *checker) unsayable(path, target string, a *api.API, w *spatev1.Workload) bool {
	found := len(c.found)
	if w.GetTools() != nil && a.Tools == nil {
		c.wrong(path+".tools", "%s: api: %s has no tools", target, a.Name)
	} else if w.GetTools().GetChoice() == api.ChoiceNone && a.Tools.NoNone {
		c.wrong(path+".tools.choice", "%s: api: %s cannot forbid calls: leave the tools out", target, a.Name)
	}
	c.refuse(w.GetAnswer() != nil && a.Demand == nil, path+".answer",
		"%s: api: %s has no field for the form of an answer", target, a.Name)
	return len(c.found) > found
}

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
	c.refuse(c.Has(texts+".texts") && !a.NoOutput, texts+".texts",
		"%s of api: %s: only embeddings, rerank and score take several texts", target, a.Name)
	c.refuse(a.NoOutput && content.PlaysSessions(w), path,
		"%s: api: %s has no answers that a conversation could continue", target, a.Name)
	c.refuse(w.GetRandom().GetImages() != nil && a.Name != registry.Chat.Name, path+".random.images",
		"%s of api: %s: only chat takes them", target, a.Name)
	why := textAlone(w)
	c.refuse(why != "" && defaults.SendsTokenIDs(t), path, "%s, whose prompts are token ids: %s", target, why)
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
