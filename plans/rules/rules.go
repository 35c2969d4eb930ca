// Package rules finds where a plan breaks the rules between its fields. Each file checks one part of a plan. A rule
// names the field, what is wrong with its value, and what to do. It never repeats text, which may be a secret in the
// wrong place. The rules of single fields are in the schema, and package document checks them.
package rules

import (
	"github.com/spate-load/spate/plans/document"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Options are what the rules depend on besides the plan.
type Options struct {
	// MaxStages is the most stages that a plan may expand into.
	MaxStages int
	// Discover accepts targets without a model, and targets that have kubernetes instead of endpoints.
	Discover bool
}

// Broken returns where a decoded plan breaks the rules between its fields.
func Broken(d *document.Document, msg *spatev1.Plan, opts Options) []document.Finding {
	c := &checker{Document: d}
	c.plan(msg, opts)
	return c.found
}

// checker collects findings about the values of a plan.
type checker struct {
	*document.Document
	found []document.Finding
}

// wrong adds a finding about a value.
func (c *checker) wrong(path, message string) {
	c.keep(document.Finding{Path: path, Message: message})
}

// absent adds a finding about a message that needs one of the fields in cures.
func (c *checker) absent(path, message string, cures ...string) {
	c.keep(document.Finding{Path: path, Message: message, In: path, Cures: cures})
}

func (c *checker) keep(f document.Finding) {
	if len(c.found) < document.MaxFound {
		c.found = append(c.found, f)
	}
}
