package rules

import (
	"fmt"
	"slices"

	"github.com/spate-load/spate/plans/defaults"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// wholeTarget checks the fields of a target whose answers come in one piece.
func (c *checker) wholeTarget(path string, t *spatev1.Target) {
	if defaults.Streams(t) {
		return
	}
	if at := path + ".stream"; defaults.API(t).NoOutput && c.Has(at) && t.GetStream() {
		c.wrong(at, fmt.Sprintf("does not work with api: %s, whose answers have no tokens and come in one piece",
			t.GetApi()))
	}
	if at := path + ".exact_output"; defaults.API(t).NoOutput && t.GetExactOutput() == "always" {
		c.wrong(at, fmt.Sprintf("does not work with api: %s, whose answers have no tokens", t.GetApi()))
	}
	const why = "works only with a stream: an answer in one piece has only one time"
	for _, field := range []string{"first_token_timeout", "gap_timeout"} {
		if at := path + "." + field; c.Has(at) {
			c.wrong(at, why+"; request_timeout bounds it")
		}
	}
	if t.GetRunningUsage() == "always" {
		c.wrong(path+".running_usage", "works only with a stream: an answer in one piece has one usage")
	}
	if _, given := t.GetBody().GetFields()["stream_options"]; given {
		c.wrong(path+`.body["stream_options"]`, "cannot be given with stream: false: servers refuse it")
	}
}

// wholeAnswers checks that nothing depends on times that answers in one piece do not have.
func (c *checker) wholeAnswers(p *spatev1.Plan) {
	const why = "needs streams, and the answers of targets[%d] come in one piece, of which only e2e is known"
	whole := func(l *spatev1.Load) int {
		return slices.IndexFunc(p.GetTargets(), func(t *spatev1.Target) bool {
			return !defaults.Streams(t) && loadpoint.IsForTarget(l, t.GetName())
		})
	}
	if at := whole(nil); at >= 0 {
		slos := []string{"slo"}
		for j, w := range p.GetWorkloads() {
			for k := range w.GetMix().GetParts() {
				slos = append(slos, fmt.Sprintf("workloads[%d].mix.parts[%d].slo", j, k))
			}
		}
		for _, slo := range slos {
			for _, field := range c.Given(slo, "ttft", "tpot") {
				c.wrong(slo+"."+field, fmt.Sprintf(why, at))
			}
		}
	}
	for i, l := range p.GetLoads() {
		at := whole(l)
		if at < 0 {
			continue
		}
		for j, limit := range l.GetSearch().GetKeep().GetLatencies() {
			if m := limit.GetMetric(); ofTokens(m) {
				c.wrong(fmt.Sprintf("loads[%d].search.keep.latencies[%d].metric", i, j), m+" "+fmt.Sprintf(why, at))
			}
		}
		if m := l.GetUntil().GetMetric(); ofTokens(m) {
			c.wrong(fmt.Sprintf("loads[%d].until.metric", i), m+" "+fmt.Sprintf(why, at))
		}
	}
}

// ofTokens reports whether a metric depends on the times of single tokens.
func ofTokens(metric string) bool {
	return slices.Contains([]string{"ttft", "tpot", "itl", "ttft_scheduled"}, metric)
}
