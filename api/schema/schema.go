// Package schema compiles the JSON Schemas that answers must satisfy.
package schema

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// errOtherDocument is the error of a schema that refers to another document.
var errOtherDocument = errors.New("it refers to another document")

// loader loads no document: a schema must not make an agent read files.
type loader struct{}

func (loader) Load(string) (any, error) { return nil, errOtherDocument }

// name is the name that a schema has for itself.
const name = "spate:schema"

// oneLine puts an error on one line, and leaves out the schema's own name.
var oneLine = strings.NewReplacer("\n", " ", strconv.Quote(name+"#"), "the schema")

// Compile returns the schema of a JSON text. It returns an error, on one line, if the text is not JSON or not a schema,
// if it refers to another document, or if checking an answer by it may take too long. It reads no files.
func Compile(text string) (*jsonschema.Schema, error) {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(loader{})
	if err := c.AddResource(name, document); err != nil {
		return nil, err
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, errors.New(oneLine.Replace(err.Error()))
	}
	if (costs{}).of(compiled, MaxDepth) > maxSteps {
		return nil, fmt.Errorf("to check a value by it may take more than %d steps, as definitions refer to others several "+
			"times: let each refer to the next once", maxSteps)
	}
	return compiled, nil
}

// Bounds on what a schema makes a program compute. A few lines in which each definition refers twice to the next would
// take longer than any run, and the library cannot be stopped.
const (
	// maxSteps is how often schemas may be applied on the way from an answer to one of its innermost values.
	maxSteps = 1 << 14
	// MaxDepth is how deep answers may nest. Deeper ones do not satisfy any schema.
	MaxDepth = 64
)

// place is a schema that is applied to a value within which others nest this deep.
type place struct {
	schema *jsonschema.Schema
	depth  int
}

// costs are the steps of places, at most maxSteps+1; 0: being computed.
type costs map[place]int

// of returns how many schemas a schema applies to a value and, on the worst way into the value, to those inside.
func (c costs) of(s *jsonschema.Schema, depth int) int {
	if s == nil {
		return 0
	}
	at := place{s, depth}
	if steps, known := c[at]; known {
		return steps
	}
	c[at] = 0 // a schema that applies itself to the same value is an error of the library
	steps := 1
	add := func(n int) { steps = min(steps+n, maxSteps+1) }
	for _, same := range sameValue(s) {
		add(c.of(same, depth))
	}
	if depth > 0 {
		for _, group := range inside(s) {
			most := 0
			for _, one := range group {
				most = max(most, c.of(one, depth-1))
			}
			add(most)
		}
	}
	c[at] = steps
	return steps
}

// sameValue returns the schemas that a schema applies to its own value.
func sameValue(s *jsonschema.Schema) []*jsonschema.Schema {
	all := []*jsonschema.Schema{s.Ref, s.RecursiveRef, s.Not, s.If, s.Then, s.Else}
	if s.DynamicRef != nil {
		all = append(all, s.DynamicRef.Ref)
	}
	all = append(append(append(all, s.AllOf...), s.AnyOf...), s.OneOf...)
	for _, one := range s.DependentSchemas {
		all = append(all, one)
	}
	for _, one := range s.Dependencies {
		all = append(all, schemaOf(one))
	}
	return all
}

// inside returns the schemas that a schema applies to values inside its own. Of a group one is applied to each.
func inside(s *jsonschema.Schema) (groups [][]*jsonschema.Schema) {
	var named, placed []*jsonschema.Schema
	for _, one := range s.Properties {
		named = append(named, one)
	}
	items, _ := s.Items.([]*jsonschema.Schema)
	placed = append(append(append(placed, s.PrefixItems...), items...), s.Items2020, schemaOf(s.Items),
		schemaOf(s.AdditionalItems))
	groups = append(groups, append(named, schemaOf(s.AdditionalProperties)), placed)
	for _, one := range s.PatternProperties {
		groups = append(groups, []*jsonschema.Schema{one})
	}
	for _, one := range []*jsonschema.Schema{s.PropertyNames, s.UnevaluatedProperties, s.UnevaluatedItems, s.Contains,
		s.ContentSchema} {
		groups = append(groups, []*jsonschema.Schema{one})
	}
	return groups
}

// schemaOf returns a schema, or nil if a keyword has something else, such as false.
func schemaOf(keyword any) *jsonschema.Schema {
	s, _ := keyword.(*jsonschema.Schema)
	return s
}

// TooDeep reports whether a value nests deeper than MaxDepth.
func TooDeep(value any) bool { return deeper(value, MaxDepth) }

func deeper(value any, than int) bool {
	if than < 0 {
		return true
	}
	switch v := value.(type) {
	case []any:
		for _, one := range v {
			if deeper(one, than-1) {
				return true
			}
		}
	case map[string]any:
		for _, one := range v {
			if deeper(one, than-1) {
				return true
			}
		}
	}
	return false
}
