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
	"cmp"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/spate-load/spate/internal/lists"
	"github.com/spate-load/spate/plans/document"
	"github.com/spate-load/spate/plans/loadpoint"
	"github.com/spate-load/spate/plans/naming"
	"github.com/spate-load/spate/plans/rules"
	"github.com/spate-load/spate/plans/secret"
	spatev1 "github.com/spate-load/spate/proto/spate/v1"
	"github.com/spate-load/spate/workload/content"
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
	o.MaxBytes, o.MaxStages = cmp.Or(o.MaxBytes, 4<<20), cmp.Or(o.MaxStages, 10_000)
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

// Path returns the path that was given to Load.
func (p *Plan) Path() string { return p.path }

// Source returns the plan's YAML, with its changes. The caller must not change it.
func (p *Plan) Source() []byte { return p.document.Source() }

// Proto returns a copy of the plan as it was written, without defaults.
func (p *Plan) Proto() *spatev1.Plan { return proto.CloneOf(p.msg) }

// Mistake returns a mistake at a field of the plan, such as File.Field. If the plan does not have the field, the
// mistake is at the node that surrounds it. It is for what is found only when the plan is used.
func (p *Plan) Mistake(field, message string) Mistake { return p.document.At(field, message) }

//go:embed plan.schema.json
var schema []byte

// Schema returns the JSON Schema of plans, for editors: Draft 2020-12. Editors with YAML Language Server use it to
// complete and check a plan whose first line is
//
//	# yaml-language-server: $schema=plan.schema.json
//
// Load checks more than the schema. The caller must not change the returned bytes.
func Schema() []byte { return schema }

// Mistake is one thing that is wrong with a plan, with its position.
type Mistake = document.Mistake //nolint:errname // as there

// Mistakes are all mistakes of a plan, sorted by line. A non-empty Mistakes is an error.
type Mistakes = document.Mistakes //nolint:errname // as there

// Load reads a plan from data, with opts.Changes, and checks all of it. The error is Mistakes with everything that is
// wrong, sorted by line, or the change that cannot be made. path is only the file name in the mistakes. Load reads no
// files, and blocks only as opts.Lookup does.
func Load(path string, data []byte, opts Options) (*Plan, error) {
	opts = opts.withDefaults()
	msg := &spatev1.Plan{}
	d, err := document.Parse(path, data, msg.ProtoReflect().Descriptor(), opts.MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := opts.Changes.apply(d); err != nil {
		if ms, is := errors.AsType[Mistakes](err); is {
			return nil, ms
		}
		return nil, Mistakes{{Path: path, Message: err.Error()}}
	}
	if err := d.Read(msg); err != nil {
		return nil, err
	}
	ms := append(d.Mistakes(), d.Relevant(rules.Broken(d, msg,
		rules.Options{MaxStages: opts.MaxStages, Discover: opts.Discover}))...)
	withBaseURLs(msg)
	p := &Plan{path: path, written: data, changes: opts.Changes, discover: opts.Discover, msg: msg, document: d}
	if opts.Lookup != nil {
		_, missing := p.lookUp(opts.Lookup)
		ms = append(ms, missing...)
	}
	if err := ms.OrNil(); err != nil {
		return nil, err
	}
	return p, nil
}

// LoadSimulator reads the settings of a simulator, which a plan's target has in its simulator, with assignments as in
// Changes.Set. Its error is like that of Load.
func LoadSimulator(path string, data []byte, set []string) (*spatev1.SimulatedTarget, error) {
	msg := &spatev1.SimulatedTarget{}
	d, err := document.Parse(path, data, msg.ProtoReflect().Descriptor(), Options{}.withDefaults().MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(d.Edit(), d.Assign(set, defaultName), d.Read(msg)); err != nil {
		return nil, Mistakes{{Path: path, Message: err.Error()}}
	}
	return msg, d.Mistakes().OrNil()
}

// Changes are changes of a plan that a person asks for without editing its file. The zero value changes nothing.
type Changes struct {
	// Set lists assignments, FIELD=VALUE: "seed=7", "loads[0].requests=50", "targets.dynamo.endpoints=http://h:1".
	// An item of a list is given by its index. Targets and workloads may also be given by their name; a workload
	// without a name by its default name. document.Document.Assign has the syntax.
	Set []string
	// Only lists the names of the targets that remain. Empty: all.
	Only []string
	// Simulate runs the plan against the simulator, in time compressed by this factor, which is at least 1. It replaces
	// a simulation that the plan has. 0: as the plan says.
	Simulate float64
	// Thresholds are conditions on all stages, besides those that the plan has.
	Thresholds []string

	with []string // Assignments of Plan.With, made after all others.
}

// apply changes a document, and makes targets of its settings. Mistakes about the document itself are returned as they
// are.
func (c Changes) apply(d *document.Document) error {
	if len(c.Set)+len(c.Only)+len(c.Thresholds)+len(c.with) == 0 && c.Simulate == 0 {
		return d.Expand("targets")
	}
	if err := d.Edit(); err != nil {
		return err
	}
	if err := d.Assign(c.Set, defaultName); err != nil {
		return err
	}
	if err := d.Expand("targets"); err != nil {
		return err
	}
	if len(c.Only) > 0 {
		if err := c.keepTargets(d); err != nil {
			return err
		}
	}
	if len(c.Thresholds) > 0 {
		if err := d.Append("thresholds", "that", c.Thresholds); err != nil {
			return err
		}
	}
	if c.Simulate != 0 {
		if err := d.Put("simulation", "speed", c.Simulate); err != nil {
			return err
		}
	}
	return d.Assign(c.with, defaultName)
}

// keepTargets leaves out all targets but Only, and what is for others: thresholds, loads, and workloads of these loads.
func (c Changes) keepTargets(d *document.Document) error {
	if err := d.Keep("targets", c.Only); err != nil {
		return err
	}
	d.Drop("thresholds", "target", c.Only)
	d.Drop("loads", "targets", c.Only)
	d.Drop("thresholds", "workload", d.DropUnused("workloads", "loads", defaultName))
	d.Drop("thresholds", "part", d.NamesWithin("workloads", "mix", "parts", defaultName))
	return nil
}

// defaultName returns the default name of a workload or of a mixture's part, or "" for items of other lists.
func defaultName(item proto.Message) string {
	switch item := item.(type) {
	case *spatev1.Workload:
		return content.Name(item)
	case *spatev1.Part:
		return content.Name(item.GetWorkload())
	}
	return ""
}

// With returns the plan with assignments, as in Changes, after all changes that it has. Without assignments it is the
// plan itself. The error is that of Load.
func (p *Plan) With(assignments ...string) (*Plan, error) {
	if len(assignments) == 0 {
		return p, nil
	}
	changes := p.changes
	changes.with = slices.Concat(changes.with, assignments)
	return Load(p.path, p.written, Options{Changes: changes, Discover: p.discover})
}

// withBaseURLs applies baseURL to all endpoints of a plan without mistakes.
func withBaseURLs(p *spatev1.Plan) {
	for _, t := range p.GetTargets() {
		for i, e := range t.GetEndpoints() {
			t.Endpoints[i] = naming.BaseURL(e)
		}
	}
}

// Thresholds returns the thresholds of the plan that a run kept, with their loads in the words of the run's stages: in
// a simulation rates are higher than planned. It reads as much of the plan as this version knows. The error says that
// data is not YAML.
func Thresholds(data []byte) ([]*spatev1.Threshold, error) {
	plan := &spatev1.Plan{}
	if len(data) == 0 {
		return nil, nil
	}
	d, err := document.Parse("plan.yaml", data, plan.ProtoReflect().Descriptor(), Options{}.withDefaults().MaxBytes)
	if err != nil {
		return nil, err
	}
	if err := d.Read(plan); err != nil {
		return nil, err
	}
	asRun := loadsAsRun(plan)
	for _, t := range plan.GetThresholds() {
		if words := asRun[t.GetLoad()]; words != "" {
			t.Load = words
		}
	}
	return plan.GetThresholds(), nil
}

// loadsAsRun returns the loads of the stages in words, by the words of the loads as they are planned.
func loadsAsRun(plan *spatev1.Plan) map[string]string {
	speed, _ := speedOf(plan)
	words := make(map[string]string)
	for _, l := range plan.GetLoads() {
		for _, planned := range loadpoint.WithoutRepeats(l) {
			runs := proto.CloneOf(planned)
			factor(speed).load(runs)
			words[loadpoint.Words(planned)] = loadpoint.Words(runs)
		}
	}
	return words
}

//go:embed *.yaml
var shipped embed.FS

// Shipped returns the names of the plans that ship with the program, sorted.
func Shipped() []string {
	return lists.Each(embeddedFiles(shipped, "."), func(name string) string { return strings.TrimSuffix(name, ".yaml") })
}

// embeddedFiles lists a folder of embedded files, sorted.
func embeddedFiles(files embed.FS, folder string) []string {
	entries, err := files.ReadDir(folder)
	if err != nil {
		panic("plans: the embedded files cannot be listed: " + err.Error())
	}
	return lists.Each(entries, fs.DirEntry.Name)
}

// Open returns the YAML of a shipped plan, by its name with or without ".yaml".
func Open(name string) ([]byte, error) {
	data, err := shipped.ReadFile(strings.TrimSuffix(name, ".yaml") + ".yaml")
	if err != nil {
		return nil, fmt.Errorf("no plan named %q ships with Spate, only %s: %w", name, strings.Join(Shipped(), ", "), err)
	}
	return data, nil
}

//go:embed data
var shippedData embed.FS

// OpenData opens a file that ships with the program for the workloads of shipped plans, by its name, such as
// "lines.txt". The caller closes the file.
func OpenData(name string) (io.ReadCloser, error) {
	f, err := shippedData.Open("data/" + name)
	if err != nil {
		return nil, fmt.Errorf("no file named %q ships with Spate, only: %s", name,
			strings.Join(embeddedFiles(shippedData, "data"), ", "))
	}
	return f, nil
}
