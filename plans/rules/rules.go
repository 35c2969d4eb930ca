// Package rules finds where a plan breaks the rules of the schema and the rules between its fields. Each file checks
// one part of a plan. A rule names the field, what is wrong with its value, and what to do. It never repeats text,
// which may be a secret in the wrong place.
package rules

import (
	"errors"
	"regexp"
	"strings"

	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/reflect/protoreflect"

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

// Broken returns where a decoded plan breaks the schema's rules or those between its fields. For each field it returns
// only the first broken rule of the schema.
func Broken(d *document.Document, msg *spatev1.Plan, opts Options) []document.Finding {
	c := &checker{Document: d, told: make(map[string]bool)}
	c.schema(protovalidate.Validate(msg))
	c.plan(msg, opts)
	return c.found
}

// checker collects findings about the values of a plan.
type checker struct {
	*document.Document
	found []document.Finding
	told  map[string]bool // Paths that the schema's rules report.
}

// wrong adds a finding about a value, unless the schema's rules report that value already.
func (c *checker) wrong(path, message string) {
	if !c.told[path] {
		c.keep(document.Finding{Path: path, Message: message})
	}
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

func (c *checker) schema(err error) {
	var invalid *protovalidate.ValidationError
	switch {
	case err == nil:
	case errors.As(err, &invalid):
		for _, v := range invalid.Violations {
			c.violation(v)
		}
	default:
		c.keep(document.Finding{Message: "the plan's rules cannot be checked: " + err.Error()})
	}
}

func (c *checker) violation(v *protovalidate.Violation) {
	path := protovalidate.FieldPathString(v.Proto.GetField())
	if c.told[path] {
		return
	}
	c.told[path] = true
	rule := v.Proto.GetRuleId()
	f := document.Finding{Path: path, Message: wording(path, rule, v.Proto.GetMessage()),
		Whole: rule == "repeated.unique"}
	switch {
	case v.Proto.GetForKey():
		f.Message = "its name " + f.Message
	case c.Has(path):
		if value := c.Quote(path); value != "" {
			f.Message += ", got " + value
		}
	default:
		f.In = document.Parent(path)
		name := path[strings.LastIndex(path, ".")+1:]
		if f.Cures = choices(name); f.Cures != nil {
			f.Path = f.In // a plan has no field of that name
		} else {
			f.Cures, f.Message = []string{name}, "is missing: it "+f.Message
		}
	}
	c.keep(f)
}

// choices returns the fields of a oneof, of which a plan gives one: a workload's content or a distribution. nil: name
// is itself a field.
func choices(name string) (names []string) {
	for _, m := range []protoreflect.ProtoMessage{&spatev1.Workload{}, &spatev1.Lengths{}} {
		if group := m.ProtoReflect().Descriptor().Oneofs().ByName(protoreflect.Name(name)); group != nil {
			for i := range group.Fields().Len() {
				names = append(names, group.Fields().Get(i).TextName())
			}
		}
	}
	return names
}

// words maps fields to what they must be, where the message of the schema's rule is for machines.
var words = map[string]string{
	"name":                            "must be letters, digits, dots, dashes and underscores, and start with a letter or digit",
	"targets":                         "must list 1 to 256 targets",
	"workloads":                       "must list 1 to 256 workloads",
	"thresholds.that":                 "must be a condition like ttft_ms.p99 < 500",
	"loads":                           "must list 1 to 256 loads",
	"targets.name":                    "must be letters, digits, spaces and ._:()/-, and start with a letter or digit",
	"targets.endpoints":               "must be a base URL like http://localhost:8000, or host:port",
	"workloads.random.images.urls":    "must be an http, https or data:image URL",
	"targets.server_metrics.urls":     "must be a URL like http://localhost:8000/metrics",
	"targets.server_metrics.gpu_urls": "must be a URL like http://localhost:9400/metrics",
	"targets.server_metrics.names":    "must be the name of a metric, or its start and *",
	"loads.rate_steps.values":         "must list 2 to 1024 values",
	"loads.concurrency_steps.values":  "must list 2 to 1024 values",
	"targets.template.path":           "must start with /, for example /api/generate",
	"targets.template.body":           "must be a Go template that makes JSON",
	"targets.tokenizer":               "must be auto, words, server, usage or file:PATH",
	"targets.api_key":                 "must say where the key is found, env:NAME or file:PATH; never write the key itself into a plan",
	`regions[""]`:                     "must not be empty",
	"workloads.name":                  "must be letters, digits, spaces and ._:()/-, and start with a letter or digit",
	"workloads.mix.parts":             "must list 2 to 64 parts",
	"workloads.mix.parts.weight":      "must be greater than 0 and at most 1,000,000",
	"workloads.content":               "must say what the requests contain, for example random: {isl: 3000, osl: 150}",
	"targets.connection.proxy":        "must be an HTTP proxy like http://proxy:3128, without user and path; give its user and password as proxy_auth",
	"targets.connection.proxy_auth":   "must say where user:password is found, env:NAME or file:PATH; never write it into a plan",
	"targets.connection.ca":           "must say where the certificates are found, env:NAME or file:PATH",
	"targets.connection.certificate":  "must say where the certificate is found, env:NAME or file:PATH",
	"targets.connection.key":          "must say where the key is found, env:NAME or file:PATH; never write the key itself into a plan",
}

var listIndex = regexp.MustCompile(`\[\d+\]`)

func wording(path, rule, message string) string {
	switch rule {
	case "string.max_len", "repeated.max_items":
		return message
	case "repeated.unique":
		return "must not list a value twice"
	}
	name := strings.ReplaceAll(listIndex.ReplaceAllString(path, ""), ".mix.parts.workload.", ".")
	if own := words[name]; own != "" {
		return own
	}
	if rule == "required" {
		return requiredWords[path[strings.LastIndex(path, ".")+1:]]
	}
	if strings.HasSuffix(path, ".path") {
		return "must name a file"
	}
	if list := listed.FindStringSubmatch(message); list != nil {
		return "must be one of " + list[1]
	}
	return plainer.Replace(message)
}

// requiredWords maps names of required fields to what they must be. The schema's rule says only that they are required.
var requiredWords = map[string]string{
	"workload":     "must say what the requests contain, for example {random: {isl: 3000, osl: 150}}",
	"keep":         "must say what is kept, for example error_share: 0.01",
	"distribution": "must say how lengths differ, for example uniform: {min: 100, max: 200}",
	"mean":         "must be a duration like 2s",
	"duration":     "must be a duration like 30s",
	"at_most":      "must be a duration like 2s",
	"at":           "must be a duration like 2m",
	"length":       "must be a duration like 30s",
	"hold":         "must be a duration like 1m",
}

// listed matches how the schema's rules list the values that a field may have.
var listed = regexp.MustCompile(`^must be in list \[(.*)\]$`)

var plainer = strings.NewReplacer("greater than or equal to", "at least", "less than or equal to", "at most")
