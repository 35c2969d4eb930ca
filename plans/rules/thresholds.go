package rules

import (
	"fmt"
	"slices"

	"github.com/spate-load/spate/internal/words"
	"github.com/spate-load/spate/plans/loadpoint"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/thresholds"
	"github.com/spate-load/spate/workload/content"
)

// thresholds checks the conditions, and the names of what they are for.
func (c *checker) thresholds(p *spatev1.Plan) {
	targets, workloads := names(p)
	for i, t := range p.GetThresholds() {
		path := fmt.Sprintf("thresholds[%d]", i)
		if _, err := thresholds.Parse(t.GetThat(), t.GetPart()); err != nil && t.GetThat() != "" {
			c.wrong(path+".that", err.Error())
		}
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
				if name := content.Name(part); !slices.Contains(parts, name) {
					parts = append(parts, name)
				}
			}
		}
	}
	if parts == nil && c.Has(path) {
		c.wrong(path, fmt.Sprintf("there is no part %q: the threshold is for no mixture", t.GetPart()))
		return
	}
	c.named(path, "part", t.GetPart(), parts)
}

// named checks that a name is one of the plan's. Empty: none is asked for.
func (c *checker) named(path, what, name string, names []string) {
	if !c.Has(path) || slices.Contains(names, name) {
		return
	}
	hint := "the plan has " + nameList(names)
	if near := words.Nearest(name, names); near != "" {
		hint = fmt.Sprintf("did you mean %q?", near)
	}
	c.wrong(path, fmt.Sprintf("there is no %s %q; %s", what, name, hint))
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
