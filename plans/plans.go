// Package plans turns the YAML that a person writes into the stages that agents are assigned. It reads plans, reports
// every mistake of a plan with its position, fills in defaults and expands the matrix targets x workloads x loads. It
// also holds the plans that ship with the program, and makes plans from command line flags.
//
// The package must not start anything, open a connection or read a secret on its own. The values of secret references
// come only from the lookup that is passed to Load and Plan.Secrets, and never appear in a message.
//
// The commands load plans with this package before they submit them. The coordinator loads a submitted plan again and
// expands it.
package plans

import (
	_ "embed" // for the schema

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/plans/document"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
)

// Options are the limits of Load and its optional checks. The zero value means the defaults.
type Options struct {
	// MaxBytes is the largest size of a plan. Default 4 MiB.
	MaxBytes int
	// MaxStages is the most stages that a plan may expand into. Default 10,000.
	MaxStages int
	// Lookup, if set, is called for each secret that the plan refers to. Missing secrets are then among the mistakes.
	Lookup secret.Lookup
	// Discover accepts targets without a model, and targets that have kubernetes instead of endpoints. Their servers
	// and the cluster must be asked before the plan is expanded.
	Discover bool
	// Changes are made before the plan is checked. Positions of mistakes are those in the unchanged text; mistakes in
	// what a change adds have none.
	Changes Changes
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

// Plan is a plan without mistakes. Load returns it. A plan does not change and is safe for concurrent use.
type Plan struct {
	path     string
	written  []byte // What Load was given, before the changes.
	changes  Changes
	discover bool // Options.Discover, for With.
	msg      *spatev1.Plan
	document *document.Document
}

// Name returns the plan's name.
func (p *Plan) Name() string { return p.msg.GetName() }

// Seed returns the plan's seed, from which each stage's seed is derived.
func (p *Plan) Seed() uint64 { return p.msg.GetSeed() }

// Path returns the path that was given to Load.
func (p *Plan) Path() string { return p.path }

// Source returns the plan's YAML, with its changes. The caller must not change it.
func (p *Plan) Source() []byte { return p.document.Source() }

// Proto returns a copy of the plan as it was written, without defaults.
func (p *Plan) Proto() *spatev1.Plan { return proto.CloneOf(p.msg) }

// Mistake returns a mistake at a field of the plan, such as File.Field. If the plan does not have the field, the
// mistake is at the node that surrounds it. It is for what is found only when the plan is used.
func (p *Plan) Mistake(field, message string) Mistake {
	return p.document.At(field, message)
}

//go:embed plan.schema.json
var schema []byte

// Schema returns the JSON Schema of plans, for editors: Draft 2020-12. Editors with YAML Language Server use it to
// complete and check a plan whose first line is
//
//	# yaml-language-server: $schema=plan.schema.json
//
// Load checks more than the schema. The caller must not change the returned bytes.
func Schema() []byte { return schema }
