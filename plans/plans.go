// Package plans turns the YAML a person writes into the stages agents are assigned: it reads plans, reports every
// mistake of a plan with its position, fills in defaults and expands the matrix targets x workloads x loads. It also
// holds the plans that are shipped with the program and makes plans from command line flags.
//
// It must not start anything, open a connection or read a secret on its own: values of secret references come only
// through the lookup handed to Load and Plan.Secrets, and never appear in a message.
//
// The commands load plans here before they hand them on; the coordinator loads what it is handed again and expands it.
package plans

import (
	"google.golang.org/protobuf/proto"

	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Options are the limits of Load and what it checks beside the text. The zero value stands for the defaults.
type Options struct {
	// MaxBytes is the size of the largest plan that is read. Default 4 MiB.
	MaxBytes int
	// MaxStages is the most stages a plan may expand into. Default 10,000.
	MaxStages int
	// Lookup, if set, is asked for each secret that the plan refers to, so that those that are missing are among the
	// mistakes.
	Lookup Lookup
	// AskModels takes targets without a model: their servers are to be asked before the plan is expanded.
	AskModels bool
}

func (o Options) withDefaults() Options {
	if o.MaxBytes == 0 {
		o.MaxBytes = 4 << 20
	}
	if o.MaxStages == 0 {
		o.MaxStages = 10_000
	}
	return o
}

// Plan is a plan without mistakes. It is not changed after Load and may be used concurrently.
type Plan struct {
	path   string
	source []byte
	msg    *spatev1.Plan
	shape  *shape
}

// Name returns the plan's name.
func (p *Plan) Name() string { return p.msg.GetName() }

// Seed returns the plan's seed, from which each stage's seed is derived.
func (p *Plan) Seed() uint64 { return p.msg.GetSeed() }

// Path returns the path that was given to Load.
func (p *Plan) Path() string { return p.path }

// Source returns the YAML the plan was read from. The caller must not change it.
func (p *Plan) Source() []byte { return p.source }

// Proto returns a copy of the plan as it was written, without defaults.
func (p *Plan) Proto() *spatev1.Plan { return proto.CloneOf(p.msg) }

// Mistake returns a mistake at a field of the plan, such as File.Field, or at what surrounds it if the plan does not
// have the field: for what is found out only when the plan is put to use.
func (p *Plan) Mistake(field, message string) Mistake {
	return p.shape.mistake(p.path, finding{path: field, message: message})
}
