package rules

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/defaults"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload"
	"github.com/spate-load/spate/workload/content"
)

func (c *checker) workload(path string, w *spatev1.Workload) {
	switch of := w.GetContent().(type) {
	case *spatev1.Workload_Random:
		c.random(path+".random", of.Random)
	case *spatev1.Workload_Sonnet:
		c.refuse(of.Sonnet.GetPrefix() > of.Sonnet.GetIsl() && of.Sonnet.GetIsl() > 0, path+".sonnet.prefix",
			"must be at most isl (%d), which it is a part of, got %d", of.Sonnet.GetIsl(), of.Sonnet.GetPrefix())
	case *spatev1.Workload_Sessions:
		c.distribution(path+".sessions.turn_counts", of.Sessions.GetTurnCounts(), defaults.MaxTurns)
		c.distribution(path+".sessions.isl_lengths", of.Sessions.GetIslLengths(), defaults.MaxLength)
		c.distribution(path+".sessions.osl_lengths", of.Sessions.GetOslLengths(), defaults.MaxLength)
	case *spatev1.Workload_Mix:
		c.mixture(path, of.Mix)
		return
	}
	c.trace(path+"."+content.Kind(w), w)
	if of := content.File(w); of != nil {
		c.fileForm(path+"."+content.Kind(w), of, w.GetFile() != nil)
	}
	c.play(path+"."+content.Kind(w), w)
	c.cacheBusting(path, w)
}

// play refuses what only the sessions of traces have.
func (c *checker) play(path string, w *spatev1.Workload) {
	play, _ := content.Play(w)
	if content.Trace(w) != nil {
		return
	}
	field := ".sessions"
	if w.GetSessions() != nil {
		field = ".play"
	}
	path += field
	c.refuse(play.GetHistory() == "none", path+".history",
		"works only with traces, whose rows may be whole prompts: give server or planned")
	c.refuse(c.Has(path+".delay_scale"), path+".delay_scale",
		"works only with traces, whose rows have delays: give think_time")
}

// mixture checks the parts of a mixture, and their weights together.
func (c *checker) mixture(path string, m *spatev1.Mixture) {
	c.refuse(c.Has(path+".cache_busting"), path+".cache_busting",
		"does not work with mix: give it in the workloads of the parts")
	names := make(map[string]int)
	var weights []float64
	for i, part := range m.GetParts() {
		w, at := part.GetWorkload(), fmt.Sprintf("%s.mix.parts[%d]", path, i)
		weights = append(weights, part.GetWeight())
		if w.GetMix() != nil {
			c.wrong(at+".workload.mix", "is a mixture in a mixture: list all parts in one mixture")
			continue
		}
		if !c.nameless(at+".workload", w) {
			c.unique(names, "part", at+".workload", i, content.Name(w))
		}
		for _, field := range c.Given(at+".workload", "tools", "answer") {
			c.refuse(c.Has(path+"."+field), at+".workload."+field,
				"is also given for all parts, in %s.%s: give it in one of them", path, field)
		}
		c.workload(at+".workload", w)
	}
	if slices.ContainsFunc(weights, func(w float64) bool { return !(w > 0) }) {
		return // Reported by the schema's rules.
	}
	c.problem(path+".mix.parts", workload.CheckWeights(weights))
}

// partForms refuses models and fields of parts where a target's API cannot have them, and an SLO of some parts only.
func (c *checker) partForms(p *spatev1.Plan) {
	for i, w := range p.GetWorkloads() {
		slos := lists.Count(w.GetMix().GetParts(), func(part *spatev1.Part) bool { return part.GetSlo() != nil })
		for j, part := range w.GetMix().GetParts() {
			for k, t := range p.GetTargets() {
				if Meet(p, t, w) {
					c.partForm(fmt.Sprintf("workloads[%d].mix.parts[%d]", i, j), part, t,
						fmt.Sprintf("%q (targets[%d])", t.GetName(), k))
				}
			}
		}
		c.refuse(slos > 0 && slos < len(w.GetMix().GetParts()) && p.GetSlo() == nil,
			fmt.Sprintf("workloads[%d].mix.parts", i), "has parts with an slo and parts without one: give each part "+
				"one, or give the plan one for the others")
	}
}

func (c *checker) partForm(path string, part *spatev1.Part, t *spatev1.Target, target string) {
	a := defaults.API(t)
	for _, field := range c.Given(path, "model", "models") {
		c.refuse(strings.Contains(a.Path, "MODEL") || a.Model == "" && a.Template == "", path+"."+field,
			"does not work with the target %s: bodies of api: %s do not name the model", target, t.GetApi())
	}
	if at := path + ".body"; c.Has(at) {
		if a.Template != "" {
			c.wrong(at, "does not work with the target %s, whose template has the whole body", target)
			return
		}
		c.body(at, &spatev1.Target{Api: t.GetApi(), Body: part.GetBody()})
	}
}

// eachPart calls fn with each workload of a plan twice, or with a mixture and the workload of each of its parts.
func eachPart(p *spatev1.Plan, fn func(path string, of, w *spatev1.Workload)) {
	for i, w := range p.GetWorkloads() {
		for j, part := range content.Parts(w) {
			path := fmt.Sprintf("workloads[%d]", i)
			if w.GetMix() != nil {
				path += fmt.Sprintf(".mix.parts[%d].workload", j)
			}
			fn(path, w, part)
		}
	}
}

// nameless reports whether a workload's default name means nothing yet, because its lengths are missing or could not be
// read. An output length may be missing.
func (c *checker) nameless(path string, w *spatev1.Workload) bool {
	r := w.GetRandom()
	return w.GetName() == "" && r != nil && (r.GetIsl() == 0 && r.GetIslLengths() == nil ||
		r.GetOsl() == 0 && c.Has(path+".random.osl"))
}

func (c *checker) random(path string, r *spatev1.RandomContent) {
	c.distribution(path+".isl_lengths", r.GetIslLengths(), defaults.MaxLength)
	c.distribution(path+".osl_lengths", r.GetOslLengths(), defaults.MaxLength)
	isl, prefix := r.GetIsl(), r.GetPrefix().GetLength()
	c.refuse(prefix > isl && isl > 0, path+".prefix.length",
		"must be at most isl (%d), which it is a part of, got %d", isl, prefix)
	c.images(path+".images", r.GetImages())
	tokens := uint64(r.GetTexts()) * uint64(isl)
	c.refuse(tokens > maxTokens, path+".texts", "gives a request %d tokens with the isl of %d: at most %d", tokens, isl,
		maxTokens)
}

// maxTokens is how many tokens the texts of a request may have together: as many as a prompt.
const maxTokens = 1 << 24

// maxPixels is the most pixels of all different images of a workload together. They are encoded before a stage starts.
const maxPixels = 1 << 28

// images checks that images are either made, with a size, or named by URLs.
func (c *checker) images(path string, i *spatev1.Images) {
	if i == nil || len(c.Given(path, "urls")) > 0 {
		return
	}
	for _, size := range []struct {
		name  string
		value uint32
	}{{"width", i.GetWidth()}, {"height", i.GetHeight()}} {
		if size.value == 0 {
			c.absent(path, "has no "+size.name+": give width and height in pixels, or urls", size.name)
		}
	}
	made := uint64(defaults.Filled(i).GetDistinct())
	pixels := made * uint64(i.GetWidth()) * uint64(i.GetHeight())
	c.refuse(pixels > maxPixels, path, "has %d images with %d pixels together, more than %d: give fewer distinct ones, "+
		"or smaller ones", made, pixels, maxPixels)
}

// trace refuses fields that mean nothing for the rows of a trace.
func (c *checker) trace(path string, w *spatev1.Workload) {
	hashes := w.GetMooncake() != nil || w.GetBailian() != nil
	c.refuse(c.Has(path+".block_tokens") && content.Trace(w) != nil && !hashes, path+".block_tokens",
		"works only with mooncake and bailian: other traces have no hash ids")
	c.refuse(c.Has(path+".sessions") && (w.GetBurstgpt() != nil || w.GetAzure() != nil), path+".sessions",
		"works only with traces whose rows belong together: mooncake, bailian, otel and openai_log")
}

// fileForm checks what a plan says about the form of a file. Only the content `file` has several forms.
func (c *checker) fileForm(path string, f *spatev1.FileContent, several bool) {
	if !several {
		c.without(path, "works only with file: the form of the others is known", "format", "columns", "subset", "split")
		return
	}
	c.refuse(f.GetColumns() != nil && f.GetFormat() == "text", path+".columns",
		"does not work with format: text, whose lines are the prompts")
}

// cacheBusting refuses a workload that asks for common prefixes and also for their absence.
func (c *checker) cacheBusting(path string, w *spatev1.Workload) {
	if w.GetCacheBusting() != "request" {
		return
	}
	for common, asked := range map[string]bool{
		"random.prefix":   w.GetRandom().GetPrefix() != nil,
		"sonnet.prefix":   w.GetSonnet().GetPrefix() > 0,
		"sessions.system": w.GetSessions().GetSystem() > 0,
	} {
		c.refuse(asked, path+".cache_busting",
			"makes every request start differently, and %s makes requests start alike: give one of them", common)
	}
}

// distribution checks a distribution of lengths or counts, of which each is at most a limit.
func (c *checker) distribution(path string, l *spatev1.Lengths, most uint32) {
	switch d := l.GetDistribution().(type) {
	case *spatev1.Lengths_Uniform:
		c.bounds(path+".uniform", d.Uniform.GetMin(), d.Uniform.GetMax(), most)
	case *spatev1.Lengths_Normal:
		c.normal(path+".normal", d.Normal, most)
	case *spatev1.Lengths_Lognormal:
		c.normal(path+".lognormal", d.Lognormal, most)
	case *spatev1.Lengths_Empirical:
		for i, v := range d.Empirical.GetValues() {
			c.refuse(v > most, fmt.Sprintf("%s.empirical.values[%d]", path, i), "must be at most %d, got %d", most, v)
		}
	}
}

func (c *checker) bounds(path string, from, to, most uint32) {
	switch {
	case to == 0: // The schema's rules report it.
	case to > most:
		c.wrong(path+".max", "must be at most %d, got %d", most, to)
	case to < from && c.Has(path+".max"):
		c.wrong(path+".max", "must be at least min (%d), got %d", from, to)
	case to < from:
		c.wrong(path+".min", "must be at most %d, got %d", most, from)
	}
}

func (c *checker) normal(path string, n *spatev1.NormalLengths, most uint32) {
	c.bounds(path, cmp.Or(n.GetMin(), 1), cmp.Or(n.GetMax(), most), most)
}
