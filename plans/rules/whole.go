package rules

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/thresholds"
	"github.com/spate-load/spate/workload/content"
)

// wholeTarget checks the fields of a target whose answers come in one piece.
func (c *checker) wholeTarget(path string, t *spatev1.Target) {
	if defaults.Streams(t) {
		return
	}
	c.refuse(defaults.API(t).NoOutput && c.Has(path+".stream") && t.GetStream(), path+".stream",
		"does not work with api: %s, whose answers have no tokens and come in one piece", t.GetApi())
	c.refuse(defaults.API(t).NoOutput && t.GetExactOutput() == "always", path+".exact_output",
		"does not work with api: %s, whose answers have no tokens", t.GetApi())
	c.without(path, "works only with a stream: an answer in one piece has only one time; request_timeout bounds it",
		"first_token_timeout", "gap_timeout")
	c.refuse(t.GetRunningUsage() == "always", path+".running_usage",
		"works only with a stream: an answer in one piece has one usage")
	c.refuse(t.GetBody().GetFields()["stream_options"] != nil, path+`.body["stream_options"]`,
		"cannot be given with stream: false: servers refuse it")
}

// wholeAnswers checks that nothing depends on times that answers in one piece do not have. An SLO's limits on such
// times apply where there are streams.
func (c *checker) wholeAnswers(p *spatev1.Plan) {
	c.wholeLimits("slo", p.GetTargets())
	for i, w := range p.GetWorkloads() {
		targets := lists.Where(p.GetTargets(), func(t *spatev1.Target) bool { return Meet(p, t, w) })
		for j := range w.GetMix().GetParts() {
			c.wholeLimits(fmt.Sprintf("workloads[%d].mix.parts[%d].slo", i, j), targets)
		}
	}
	for i, l := range p.GetLoads() {
		c.wholeLoad(fmt.Sprintf("loads[%d]", i), l, p)
	}
}

// wholeLimits refuses limits of an SLO that none of the targets that it is for can be held to.
func (c *checker) wholeLimits(path string, targets []*spatev1.Target) {
	if len(targets) == 0 || slices.ContainsFunc(targets, defaults.Streams) {
		return
	}
	c.without(path, "needs streams, and all of its targets answer in one piece, of which only e2e is known", "ttft",
		"tpot")
}

// wholeLoad refuses a load that depends on such times with one of its targets.
func (c *checker) wholeLoad(path string, l *spatev1.Load, p *spatev1.Plan) {
	target := slices.IndexFunc(p.GetTargets(), func(t *spatev1.Target) bool {
		return !defaults.Streams(t) && loadpoint.IsForTarget(l, t.GetName())
	})
	if target < 0 {
		return
	}
	why := fmt.Sprintf(" needs streams, and the answers of targets[%d] come in one piece, of which only e2e is known", target)
	for at, keep := range keeps(path, l) {
		for i, limit := range keep.GetLatencies() {
			m := limit.GetMetric()
			c.refuse(ofTokens(m), fmt.Sprintf("%s.latencies[%d].metric", at, i), "%s%s", m, why)
		}
	}
	for at, m := range map[string]string{".frontier.metric": l.GetFrontier().GetMetric(),
		".choose.best": l.GetChoose().GetBest(), ".until.metric": l.GetUntil().GetMetric()} {
		c.refuse(ofTokens(m), path+at, "%s%s", m, why)
	}
	without := func(s *spatev1.SLO) bool { return s != nil && defaults.WholeLimits(s) == nil }
	for i, w := range p.GetWorkloads() {
		limits := content.SLOs(&spatev1.Stage{Workload: w, Slo: p.GetSlo()})
		if !loadpoint.IsFor(l, content.Name(w)) || !slices.ContainsFunc(limits, without) {
			continue
		}
		c.without(path, fmt.Sprintf("needs an slo with e2e for workloads[%d] on targets[%d], whose answers come in "+
			"one piece: add one, or give the load targets", i, target), "search.keep.goodput", "frontier.keep.goodput",
			"choose.within.goodput")
	}
}

// ofTokens reports whether a metric depends on the times of single tokens.
func ofTokens(metric string) bool {
	return slices.Contains([]string{"ttft", "tpot", "itl", "ttft_scheduled"}, metric)
}

// thresholds checks the conditions, and the names of what they are for.
func (c *checker) thresholds(p *spatev1.Plan) {
	targets, workloads := names(p)
	for i, t := range p.GetThresholds() {
		path := fmt.Sprintf("thresholds[%d]", i)
		_, err := thresholds.Parse(t.GetThat(), t.GetPart())
		c.refuse(err != nil && t.GetThat() != "", path+".that", "%v", err)
		c.named(path+".target", "target", t.GetTarget(), targets)
		c.named(path+".workload", "workload", t.GetWorkload(), workloads)
		c.ofPart(path+".part", t, p)
		if words := plannedLoads(p); words != nil {
			c.named(path+".load", "load", t.GetLoad(), words)
		}
	}
}

// ofPart checks that a part that a threshold is for is in a mixture: in that of its workload, if it names one.
func (c *checker) ofPart(path string, t *spatev1.Threshold, p *spatev1.Plan) {
	var parts []string
	for _, w := range p.GetWorkloads() {
		if of := t.GetWorkload(); w.GetMix() != nil && (of == "" || of == content.Name(w)) {
			for _, part := range content.Parts(w) {
				parts = words.AppendOnce(parts, content.Name(part))
			}
		}
	}
	if parts == nil && c.Has(path) {
		c.wrong(path, "there is no part %q: the threshold is for no mixture", t.GetPart())
		return
	}
	c.named(path, "part", t.GetPart(), parts)
}

// named checks that a name is one of the plan's. Empty: none is asked for.
func (c *checker) named(path, what, name string, names []string) {
	if !c.Has(path) || slices.Contains(names, name) {
		return
	}
	hint := "the plan has " + strings.Join(lists.Each(names, strconv.Quote), ", ")
	if near := words.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	c.wrong(path, "there is no %s %q; %s", what, name, hint)
}

// plannedLoads returns the loads of the stages in words, or nil if a sweep, a search or a frontier decides on loads
// during the run.
func plannedLoads(p *spatev1.Plan) (words []string) {
	for _, l := range p.GetLoads() {
		for _, point := range loadpoint.WithoutRepeats(l) {
			if loadpoint.IsTemplate(point) {
				return nil
			}
			words = append(words, loadpoint.Words(point))
		}
	}
	return words
}
